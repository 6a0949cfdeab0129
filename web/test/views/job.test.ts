import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobText } from '../../src/views/promotion/job';

const progress = { done: 0, total: 0, unit: '', text: 'drift: queued at Slurm as 1234: Priority' };

test('a job is named with its runner, its number there and its nodes', () => {
  const place = { runner: 'slurm', remote: '1234', state: 'running', reason: '', nodes: 'n[1-2]' };
  assert.equal(jobText({ ...progress, job: 'job-1', place }), 'job-1 at slurm 1234 on n[1-2]');
  assert.equal(jobText({ ...progress, job: 'job-1', place: { ...place, nodes: '', remote: '' } }), 'job-1 at slurm');
});

test('a job that no runner knows is named alone, and without a job there is nothing to say', () => {
  assert.equal(jobText({ ...progress, job: 'job-1', place: null }), 'job-1');
  assert.equal(jobText({ ...progress, job: 'job-1' }), 'job-1');
  assert.equal(jobText(progress), '');
});
