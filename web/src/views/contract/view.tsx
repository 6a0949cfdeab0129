import type { ViewProps } from '../../app/router';
import { PageHead } from '../../ui/page';

export default function View(_: ViewProps) {
  return <PageHead title="Contract" />;
}
