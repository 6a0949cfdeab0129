import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromHex, toHex } from '../../src/proof/bytes';
import { emptyRoot, isContinuation, leafHash, rootFromPath } from '../../src/proof/tree';
import { consistency, hex, inclusion, leafOf, treeRoot } from './log';

// Inputs and roots that implementations of RFC 6962 are tested with.
const INPUTS = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f'];
const ROOTS = [
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];

const leaves = Array.from({ length: 40 }, (_, i) => leafOf(Buffer.from(`entry ${i}`)));

test('the empty tree and the leaves of RFC 6962', () => {
  assert.equal(toHex(emptyRoot()), 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
  const known = INPUTS.map((input) => leafHash(fromHex(input)!));
  known.forEach((_, i) => assert.equal(hex(treeRoot(known.slice(0, i + 1))), ROOTS[i]));
});

test('every inclusion proof gives its root, and no changed one does', () => {
  for (let size = 1; size <= leaves.length; size++) {
    const part = leaves.slice(0, size);
    const root = hex(treeRoot(part));
    for (let seq = 0; seq < size; seq++) {
      const path = inclusion(seq, part);
      const made = rootFromPath(part[seq]!, seq, size, path);
      assert.equal(made && toHex(made), root);
      assert.equal(rootFromPath(part[seq]!, seq, size, [...path, part[0]!]), undefined, 'a path that is too long');
      if (path.length > 0) assert.equal(rootFromPath(part[seq]!, seq, size, path.slice(1)), undefined, 'one that is too short');
      path.forEach((_, at) => {
        const changed = path.map((hash) => Uint8Array.from(hash));
        changed[at]![at % 32]! ^= 1 << at % 8;
        assert.notEqual(toHex(rootFromPath(part[seq]!, seq, size, changed)!), root);
      });
      if (size > 1) {
        const elsewhere = rootFromPath(part[seq]!, (seq + 1) % size, size, path);
        assert.notEqual(elsewhere && toHex(elsewhere), root, 'the same path at another place');
      }
    }
  }
  assert.equal(rootFromPath(leaves[0]!, 1, 1, []), undefined);
  assert.equal(rootFromPath(leaves[0]!, 0, 0, []), undefined);
});

test('every consistency proof holds, and no changed one does', () => {
  for (let to = 1; to <= leaves.length; to++) {
    const later = treeRoot(leaves.slice(0, to));
    for (let from = 0; from <= to; from++) {
      const before = treeRoot(leaves.slice(0, from));
      const path = consistency(from, leaves.slice(0, to));
      assert.ok(isContinuation(from, to, before, later, path), `${from} to ${to}`);
      assert.ok(!isContinuation(from, to, before, later, [...path, before]), 'a path that is too long');
      if (path.length > 0) assert.ok(!isContinuation(from, to, before, later, path.slice(1)), 'one that is too short');
      const other = Uint8Array.from(before);
      other[31]! ^= 1;
      assert.ok(!isContinuation(from, to, other, later, path), 'another old root');
      const forked = Uint8Array.from(later);
      forked[0]! ^= 128;
      if (from > 0) assert.ok(!isContinuation(from, to, before, forked, path), 'another new root');
      path.forEach((_, at) => {
        const changed = path.map((hash) => Uint8Array.from(hash));
        changed[at]![7]! ^= 4;
        assert.ok(!isContinuation(from, to, before, later, changed));
      });
    }
  }
  assert.ok(!isContinuation(3, 2, leaves[0]!, leaves[0]!, []));
});

test('sizes beyond 32 bits', () => {
  const size = 2 ** 40 + 1;
  assert.equal(toHex(rootFromPath(leaves[0]!, 2 ** 40, size, [leaves[1]!])!), hex(treeRoot([leaves[1]!, leaves[0]!])));
  assert.equal(rootFromPath(leaves[0]!, 2 ** 40 - 1, size, [leaves[1]!]), undefined);
});
