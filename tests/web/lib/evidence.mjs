// What tests with the mock and with a real daemon do alike on the view of the evidence.
import { shown } from './browser.mjs';

/** Pins a key, as a person does who got it by another channel than the host. */
export async function pin(page, text) {
  await page.getByRole('button', { name: /^(Pin the log’s key|Keys and kept heads)$/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(/^Verifier key/).fill(text);
  await dialog.getByRole('button', { name: 'Pin', exact: true }).click();
  await dialog.getByRole('button', { name: /^Unpin the key/ }).first().waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await shown(page);
}
