// Verifies bundles with the libraries of Go's checksum database, which know nothing of driftgate: signed heads with
// sumdb/note, inclusion, consistency and whole logs with sumdb/tlog.
//
// usage: sumdb TRUST.json OLDER.note BUNDLE...
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type line struct {
	T, Checkpoint, Entry, Root string
	Promotion                  *string
	Seq, Size, First, End      int64
	Proof                      []string
}

func must(err error, what string) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		os.Exit(1)
	}
}

func hash(text string) (h tlog.Hash) {
	bytes, err := hex.DecodeString(text)
	must(err, "a hash")
	copy(h[:], bytes)
	return h
}

func hashes(texts []string) (list []tlog.Hash) {
	for _, text := range texts {
		list = append(list, hash(text))
	}
	return list
}

// The tree of a signed head; its first line is not the one that tlog expects.
func open(signed string, known note.Verifiers) tlog.Tree {
	opened, err := note.Open([]byte(signed), known)
	must(err, "a signed head")
	_, rest, _ := strings.Cut(opened.Text, "\n")
	tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + rest))
	must(err, "a signed head")
	return tree
}

func verifiers(path string) note.Verifiers {
	var trust struct{ Keys []struct{ Use, Name, Key string } }
	text, err := os.ReadFile(path)
	must(err, path)
	must(json.Unmarshal(text, &trust), path)
	var list []note.Verifier
	for _, key := range trust.Keys {
		if key.Use != "head" {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(key.Key)
		must(err, "a key")
		spelled, err := note.NewEd25519VerifierKey(key.Name, raw)
		must(err, "a key")
		verifier, err := note.NewVerifier(spelled)
		must(err, "a key")
		list = append(list, verifier)
	}
	return note.VerifierList(list...)
}

func main() {
	known := verifiers(os.Args[1])
	kept, err := os.ReadFile(os.Args[2])
	must(err, os.Args[2])
	older, entries, proofs, wholes := open(string(kept), known), 0, 0, 0
	for _, path := range os.Args[3:] {
		file, err := os.Open(path)
		must(err, path)
		var tree tlog.Tree
		var stored []tlog.Hash
		single, whole := false, false
		reader := tlog.HashReaderFunc(func(at []int64) (list []tlog.Hash, err error) {
			for _, i := range at {
				list = append(list, stored[i])
			}
			return list, nil
		})
		for lines := bufio.NewReader(file); ; {
			text, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			var l line
			must(json.Unmarshal(text, &l), path)
			switch l.T {
			case "bundle":
				tree, single = open(l.Checkpoint, known), l.Promotion != nil
			case "range":
				whole = l.First == 0 && l.End == tree.N
			case "consistency":
				if l.Size != older.N || hash(l.Root) != older.Hash {
					must(fmt.Errorf("its root is not that of the older head"), path)
				}
				must(tlog.CheckTree(hashes(l.Proof), tree.N, tree.Hash, older.N, older.Hash), path)
				proofs++
			case "entry":
				entries++
				if single {
					must(tlog.CheckRecord(hashes(l.Proof), tree.N, tree.Hash, l.Seq, tlog.RecordHash([]byte(l.Entry))), path)
				} else if whole {
					more, err := tlog.StoredHashes(l.Seq, []byte(l.Entry), reader)
					must(err, path)
					stored = append(stored, more...)
				}
			}
		}
		if whole {
			root, err := tlog.TreeHash(tree.N, reader)
			must(err, path)
			if root != tree.Hash {
				must(fmt.Errorf("its entries do not make the root"), path)
			}
			wholes++
		}
	}
	fmt.Printf("%d bundles: %d entries, %d consistency proofs, %d whole logs verified by golang.org/x/mod/sumdb\n",
		len(os.Args)-3, entries, proofs, wholes)
	if entries == 0 || len(os.Args) < 4 {
		os.Exit(1)
	}
}
