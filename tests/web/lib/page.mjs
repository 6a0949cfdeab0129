// Steps that tests and scripts/page_budget take alike; they need no test runner.

/** Waits until the view has its heading and nothing is being loaded. */
export async function shown(page) {
  await page.locator('main h1, main h2').first().waitFor();
  await page.waitForFunction(() => !document.querySelector('main [aria-busy="true"], main[aria-busy="true"]')
    && !/^Loading/m.test(document.querySelector('main')?.innerText ?? 'Loading'));
}

/** Opens an address as somebody who was handed a link with a token. */
export async function openAs(page, url, token, where = '/') {
  await page.goto(`${url}${where}#token=${token}`);
  await shown(page);
}

/** Pins a key on the view of the evidence, as a person does who got it by another channel than the host. */
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

/** The buttons of a list of entries, each of which checks one. */
export const checks = (page) => page.getByRole('button', { name: /^Check here: entry [\d,]+/ });

/** What the check of an entry has found, in a sentence. */
export async function found(page) {
  const sentence = page.locator('.check-sentence');
  await sentence.waitFor();
  return (await sentence.innerText()).trim();
}

/** Opens an entry and checks it. */
export async function checkEntry(page, url, seq) {
  await page.goto(`${url}/evidence?seq=${seq}`);
  await shown(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Check here' }).click();
  return found(page);
}

/** Takes an action on a promotion: two clicks, with the reason typed between them. */
export async function give(page, verb, reason) {
  await page.getByRole('main').getByRole('button', { name: verb, exact: true }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(/^Reason/).fill(reason);
  await dialog.getByRole('button', { name: verb, exact: true }).click();
}

/** Waits until no dialog is open. */
export async function closed(page) {
  try {
    await page.waitForFunction(() => !document.querySelector('dialog[open]'));
  } catch (error) {
    throw new Error(`The dialog stays open: ${await page.getByRole('dialog').first().innerText()}`, { cause: error });
  }
}
