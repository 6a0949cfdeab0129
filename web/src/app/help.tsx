import { Dialog } from '../ui/dialog';
import { keysOn } from './keys';

const KEYS: [string, string][] = [
  ['/', 'Search'], ['j', 'Next row'], ['k', 'Previous row'], ['Enter', 'Open the row'], ['g p', 'Models and promotions'],
  ['g c', 'Contracts'], ['g e', 'Evidence'], ['?', 'This help'], ['Esc', 'Close a dialog'],
];

export default function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <table class="table keep">
        <caption class="offscreen">Keys and what they do</caption>
        <thead><tr><th scope="col">Key</th><th scope="col">What it does</th></tr></thead>
        <tbody>{KEYS.map(([key, text]) => <tr key={key}><th scope="row"><kbd>{key}</kbd></th><td>{text}</td></tr>)}</tbody>
      </table>
      <p class="muted">No key changes anything: every action asks first.</p>
      <label class="row"><input type="checkbox" checked={keysOn.value} onChange={(event) => { keysOn.value = event.currentTarget.checked; }} /> Keys of one letter are on</label>
    </Dialog>
  );
}
