import { render } from 'preact';
import { Shell } from './app/shell';
import { start } from './app/start';

start();
const page = document.getElementById('page');
if (page) {
  page.textContent = '';
  render(<Shell />, page);
}
