// A version of a model: engine, kernel and checkpoint, always by name and digest.

import type { Version } from '../api/types';
import { Digest, Name } from './name';

/** `digest` adds the checkpoint with its copy button. */
export function VersionName({ version, digest }: { version: Version | null | undefined; digest?: boolean }) {
  if (!version) return <span class="muted">none</span>;
  return (
    <span class="version">
      <Name>{version.engine}</Name>
      {version.kernel !== version.engine && <> <span class="muted">(<Name>{version.kernel}</Name>)</span></>}
      {digest && <> <Digest>{version.checkpoint}</Digest></>}
    </span>
  );
}
