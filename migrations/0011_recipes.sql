-- What a model's promotions are asked for with unless the request says otherwise (docs/recipes.md). A row stays when its
-- recipe is deleted, without a document, so that no revision comes twice.
CREATE TABLE recipes(
  model TEXT PRIMARY KEY REFERENCES models(name),
  document TEXT,
  digest TEXT NOT NULL,
  revision INTEGER NOT NULL CHECK(revision >= 1),
  set_by TEXT NOT NULL,
  set_us INTEGER NOT NULL,
  evidence_seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
