// Saves what was read as a file.

/** Bytes or text as a file that the browser saves. */
export function save(name: string, content: Uint8Array | string | Blob, type = 'application/octet-stream'): void {
  const blob = content instanceof Blob ? content : new Blob([content as BlobPart], { type });
  const address = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
