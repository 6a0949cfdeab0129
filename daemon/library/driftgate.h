/* driftgate.h: the drift between two kernels, from C or anything that can call C.
 *
 * The calls do what `driftgate drift` does: they measure how far the distributions of an inference kernel are
 * from those of a training kernel, decide the clauses of a contract that captures can decide, and report it.
 * For the same captures the JSON of a result is byte for byte that of `driftgate drift --json`.
 *
 * Conventions
 *
 * - Objects are opaque. Each is made by a call that writes to `out` and is given back with its `_close`, which
 *   takes NULL as well. What an object was made from need not outlive it, with one exception: the memory of
 *   rows (dg_rows, dg_head_from_memory) is not copied and must stay as it is while an object refers to it.
 * - A call that can fail returns a status: DG_OK, or what went wrong. It then writes nothing to `out`, and the
 *   message goes to `error`, which may be NULL, and to dg_last_error().
 * - Structs begin with `struct_size`, which the caller sets to sizeof of the struct. Later versions append
 *   members; what lies beyond a caller's struct_size counts as zero. Zero and NULL mean "not given" unless
 *   something else is said, so that a struct of zeros with its size is the default.
 * - Text is UTF-8 with its length and need not end with NUL. Texts that are written to the caller belong to
 *   the object and live until it is closed (and end with NUL as well).
 * - No exception and no ownership crosses the interface. Inputs are checked, under the limits of
 *   docs/library.md; a pointer to rows must be readable for as many bytes as its shape says, which cannot be
 *   checked.
 * - Threads: different objects may be used by different threads at the same time without a lock. Captures, heads,
 *   corpora, contracts and results never change after they are made, so that several threads may use one of
 *   them at once. An accumulator and a writer are used by one thread at a time. No call may be in
 *   progress on an object that is closed. The library uses no signal, no locale and no global state but
 *   dg_last_error, which is of the calling thread.
 */
#ifndef DRIFTGATE_H
#define DRIFTGATE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DG_API __attribute__((visibility("default")))
#else
#define DG_API
#endif

/** Version of this interface: dg_abi_version() of a library that has every call declared here is at least this. */
#define DG_ABI_VERSION 1u

/* ---- Status, messages, text ---- */

typedef int32_t dg_status;
enum {
  DG_OK = 0,
  DG_INVALID_ARGUMENT = 1,   /**< the call makes no sense */
  DG_INVALID_DOCUMENT = 2,   /**< a contract or corpus breaks a rule; the message lists line and column */
  DG_INVALID_CAPTURE = 3,    /**< a capture, in a file or in memory, breaks a rule of captures */
  DG_NOT_COMPARABLE = 4,     /**< two captures differ in something that must agree */
  DG_NOT_FOUND = 5,          /**< what was named does not exist */
  DG_ALREADY_EXISTS = 6,     /**< what was to be made is there */
  DG_CONFLICT = 7,           /**< the state of the object does not allow this call */
  DG_UNAUTHENTICATED = 8,    /**< never from this library */
  DG_FORBIDDEN = 9,          /**< never from this library */
  DG_LIMIT_EXCEEDED = 10,    /**< the input is larger than its limit */
  DG_UNSUPPORTED = 11,       /**< this library or device cannot do it */
  DG_UNAVAILABLE = 12,       /**< a device that cannot be reached */
  DG_DEADLINE_EXCEEDED = 13, /**< never from this library */
  DG_IO = 14,                /**< reading or writing failed */
  DG_STORAGE_FULL = 15,      /**< there is no space for a write */
  DG_CORRUPT = 16,           /**< stored data contradicts itself */
  DG_INTERNAL = 17,          /**< a bug: please report */
  DG_CANCELLED = 100,        /**< the progress callback asked to stop */
  DG_NO_MEMORY = 101         /**< memory could not be had */
};

/** Text of `size` bytes of UTF-8. As an input, {NULL, 0} is "not given". */
typedef struct dg_text {
  const char* data;
  size_t size;
} dg_text;

/** A text that ends with NUL, as a dg_text; NULL is "not given". */
static inline dg_text dg_text_of(const char* text) {
  dg_text out;
  out.data = text;
  out.size = text == NULL ? 0 : strlen(text);
  return out;
}

#define DG_MESSAGE_BYTES 4096

/** Filled in by a call that fails, and left alone by one that succeeds. */
typedef struct dg_error {
  uint32_t struct_size;
  dg_status code;
  uint64_t message_bytes;         /**< of the whole message, without NUL; more than `message` holds: see dg_last_error */
  char message[DG_MESSAGE_BYTES]; /**< ends with NUL; cut between characters where the whole does not fit */
} dg_error;

/** The whole message of the latest call that failed in this thread; empty before the first. Valid until the next
 *  call that fails in this thread. */
DG_API dg_text dg_last_error(void);
/** The name of a status, such as "invalid_argument"; "unknown" for other numbers. */
DG_API const char* dg_status_name(dg_status status);

/** The version of the library, such as "0.1.0". */
DG_API const char* dg_version(void);
/** The DG_ABI_VERSION that the library was built with. Libraries of one major version (SOVERSION) only add to it. */
DG_API uint32_t dg_abi_version(void);

/* ---- Captures: what one kernel produced ---- */

/** Types of elements. */
enum { DG_F32 = 0, DG_F16 = 1, DG_BF16 = 2, DG_I32 = 3, DG_I64 = 4 };

/** What a capture holds of each row's distribution. */
enum {
  DG_MODE_FULL = 0,    /**< logits over the whole vocabulary */
  DG_MODE_HIDDEN = 1,  /**< hidden states and a head, which give the logits */
  DG_MODE_TOPK = 2,    /**< lists of the most likely tokens and their log-probabilities */
  DG_MODE_MATCHED = 3, /**< lists of tokens that the caller chose, the same ones for both kernels */
  DG_MODE_REALISED = 4 /**< log-probabilities of the target tokens only */
};

typedef struct dg_capture dg_capture;
typedef struct dg_head dg_head;

/** Which kernel, model, corpus and sampling the rows are of. Two captures must agree in all of it but `kernel`. */
typedef struct dg_identity {
  uint32_t struct_size;
  uint32_t reserved;
  dg_text kernel;            /**< a name, such as "vllm-0.11-bf16" */
  dg_text checkpoint_digest; /**< of the model's weights */
  dg_text corpus_digest;
  dg_text token_source;    /**< where the target tokens come from: "corpus" (also if not given), "k_inf", ... */
  dg_text sampling_filter; /**< that was applied to the logits: "none" (also if not given), "top-p 0.9", ... */
  double temperature;      /**< the logits are divided by it; 0: 1; otherwise at least 1e-6 */
} dg_identity;

/** Rows x columns elements in the caller's memory, of any alignment. Given where `data` is not NULL. */
typedef struct dg_matrix {
  const void* data;
  uint64_t row_stride_bytes; /**< from one row to the next; 0: rows follow each other; at least the size of a row */
  uint32_t dtype;            /**< DG_F32, DG_F16, DG_BF16; of ids DG_I32 or DG_I64 */
  uint32_t columns;          /**< vocabulary of logits, width of hidden states, length of lists */
} dg_matrix;

/** Rows in memory, one for each token position that was computed. Exactly one of these is given: `logits`; `hidden`
 *  with `head`; `topk_ids` with `topk_logprobs`; `logprobs` with `tokens` alone. The matrices are not copied;
 *  tokens, sequences, positions and logprobs are. */
typedef struct dg_rows {
  uint32_t struct_size;
  uint32_t memory;           /**< where the matrices are: DG_MEMORY_HOST (0) or DG_MEMORY_CUDA */
  uint64_t rows;
  const int64_t* tokens;     /**< [rows] target tokens (the next token of each row), or NULL: no figures of target tokens */
  const int64_t* sequences;  /**< [rows] the sequence of each row, any numbers; NULL: all rows are of sequence 0, and a
                                  contract sees one sample only */
  const int64_t* positions;  /**< [rows] position in the sequence; NULL: counted from 0 in each sequence */
  dg_matrix logits;          /**< before any temperature, filter or mask; columns: the vocabulary */
  dg_matrix hidden;          /**< what the head is multiplied with, after the last norm */
  const dg_head* head;
  dg_matrix topk_ids;        /**< DG_I32 or DG_I64; rows follow each other; -1 fills a short list */
  dg_matrix topk_logprobs;   /**< DG_F32, in nats; rows follow each other; -9999 and below: unknown */
  const float* logprobs;     /**< [rows] of the target tokens as the engine says, in nats; needs tokens; may be given
                                  beside a matrix */
  uint32_t vocabulary;       /**< of lists and log-probabilities alone; 0: not stated */
  uint32_t matched;          /**< 1: the lists hold tokens that the caller chose (DG_MODE_MATCHED) */
  double logprob_error;      /**< largest absolute error of log-probabilities beyond rounding, in nats, 0 to 10 */
} dg_rows;

/** Places of memory. */
enum {
  DG_MEMORY_HOST = 0, /**< that the CPU reads */
  DG_MEMORY_CUDA = 1  /**< of the CUDA device that measures; full logits only, whose writing has ended. With device "cpu"
                           DG_INVALID_ARGUMENT */
};

/** Where the head of hidden states in files is, if not where their metadata says. */
typedef struct dg_open_options {
  uint32_t struct_size;
  uint32_t reserved;
  dg_text lm_head;    /**< a safetensors file */
  dg_text checkpoint; /**< a folder of safetensors files, or one such file */
} dg_open_options;

/** Opens a capture: a safetensors file, or a folder of them, in the order of their names. The files are mapped, not
 *  read, and must not be written to while the capture is open. `options` may be NULL. Errors: DG_NOT_FOUND, DG_IO,
 *  DG_INVALID_CAPTURE, DG_INVALID_ARGUMENT, DG_LIMIT_EXCEEDED. */
DG_API dg_status dg_capture_open(dg_text path, const dg_open_options* options, dg_capture** out, dg_error* error);

/** A capture of rows in memory. `identity` may be NULL. `name` is for messages; if it is not given, it is
 *  "rows in memory". Errors: DG_INVALID_ARGUMENT, DG_INVALID_CAPTURE (a token outside the vocabulary, a token twice
 *  in a list, ...), DG_LIMIT_EXCEEDED. */
DG_API dg_status dg_capture_from_rows(const dg_rows* rows, const dg_identity* identity, dg_text name,
                                      dg_capture** out, dg_error* error);
DG_API void dg_capture_close(dg_capture* capture);

/** What a capture holds. The texts live as long as the capture. */
typedef struct dg_capture_info {
  uint32_t struct_size;
  uint32_t mode;       /**< DG_MODE_... */
  uint64_t rows;
  uint32_t vocabulary; /**< 0: not stated */
  uint32_t columns;    /**< of its matrices: vocabulary, width or length of the lists; 0: none */
  uint32_t has_tokens;
  uint32_t has_logprobs;
  uint32_t pieces;     /**< its files, or 1 in memory */
  uint32_t reserved;
  dg_identity identity;
} dg_capture_info;
/** Fills in `info`, whose struct_size is set by the caller; the rest of it may be anything. The identity gets the size
 *  that this library knows. */
DG_API dg_status dg_capture_get_info(const dg_capture* capture, dg_capture_info* info, dg_error* error);

/** Columns of a capture. */
enum { DG_COLUMN_TOKENS = 0, DG_COLUMN_SEQUENCES = 1, DG_COLUMN_POSITIONS = 2 };
/** A column of a capture, [rows]; {NULL, 0} for tokens that there are not. It lives as long as the capture. */
DG_API dg_status dg_capture_column(const dg_capture* capture, uint32_t column, const int64_t** values,
                                   uint64_t* rows, dg_error* error);
/** The matrix of piece 0, 1, ... of a capture of full logits or hidden states, without a copy: `rows` rows, the first
 *  of which is row `first` of the capture. It lives as long as the capture (or as the caller's memory). Errors:
 *  DG_INVALID_ARGUMENT for a piece that there is not, DG_UNSUPPORTED for captures of other modes. */
DG_API dg_status dg_capture_matrix(const dg_capture* capture, uint32_t piece, dg_matrix* matrix, uint64_t* first,
                                   uint64_t* rows, dg_error* error);

/** The head that turns hidden states into logits: x = scale * (W h + bias), then cap * tanh(x / cap). */
typedef struct dg_head_options {
  uint32_t struct_size;
  uint32_t vocabulary; /**< rows of W that are tokens, the rest is padding; 0: all */
  uint64_t rows;       /**< of W: the padded vocabulary */
  dg_matrix weight;    /**< W, [rows, width]; rows follow each other */
  const void* bias;    /**< [rows] of bias_dtype, or NULL */
  uint32_t bias_dtype; /**< DG_F32, DG_F16 or DG_BF16 */
  uint32_t reserved;
  double scale;        /**< greater than 0; 0: 1 */
  double soft_cap;     /**< greater than 0; 0: none */
} dg_head_options;
/** A head in the caller's memory, which is not copied but for its bias. Make one head for all captures that share it: heads
 *  of equal memory are the same head to a measurement, and those of other memory are compared. Errors:
 *  DG_INVALID_ARGUMENT, DG_INVALID_CAPTURE for a weight or bias of a type or shape that no head has. */
DG_API dg_status dg_head_from_memory(const dg_head_options* options, dg_head** out, dg_error* error);
DG_API void dg_head_close(dg_head* head);

/* ---- Corpus (attributes and slices of sequences) and contract ---- */

typedef struct dg_corpus dg_corpus;
typedef struct dg_contract dg_contract;

/** Reads JSON Lines, one object for each sequence: {"sequence": 0, "id": "...", "slices": {"language": "de"}, ...}.
 *  Errors: DG_NOT_FOUND, DG_IO, DG_INVALID_DOCUMENT with the line, DG_LIMIT_EXCEEDED. */
DG_API dg_status dg_corpus_open(dg_text path, dg_corpus** out, dg_error* error);
/** The same from text. `name` stands in messages. */
DG_API dg_status dg_corpus_parse(dg_text text, dg_text name, dg_corpus** out, dg_error* error);
DG_API void dg_corpus_close(dg_corpus* corpus);

/** Reads a contract, YAML or JSON. Errors: DG_NOT_FOUND or DG_IO; DG_INVALID_DOCUMENT, whose message has a line
 *  "NAME:LINE:COLUMN: ..." for each fault, as of `driftgate contract lint`. */
DG_API dg_status dg_contract_open(dg_text path, dg_contract** out, dg_error* error);
/** The same from text. `name` stands in messages. */
DG_API dg_status dg_contract_parse(dg_text text, dg_text name, dg_contract** out, dg_error* error);
/** Its name, and the digest that verdicts and evidence carry. They live as long as the contract. Not NULL. */
DG_API dg_text dg_contract_name(const dg_contract* contract);
DG_API dg_text dg_contract_digest(const dg_contract* contract);
DG_API void dg_contract_close(dg_contract* contract);

/* ---- Measuring ---- */

typedef struct dg_result dg_result;

/** Called between batches of rows by the thread that called, with the rows that are done and all rows; in dg_measure,
 *  those of the floors, which come first, count as well. After the last row, while the contract is decided, it is not
 *  called. What it returns ends the call with DG_CANCELLED if it is not 0. It must not call the library with the same
 *  accumulator, nor throw or jump out. */
typedef int (*dg_progress)(void* user, uint64_t done, uint64_t total);

/** Which figures of a row: all; or those that one reading of the row yields (`--metrics core`). */
enum { DG_METRICS_ALL = 0, DG_METRICS_CORE = 1 };
/** For top_rows: keep no worst rows. */
#define DG_NO_TOP_ROWS 0xffffffffu

typedef struct dg_options {
  uint32_t struct_size;
  uint32_t threads;     /**< of the CPU, at most 1024; 0: one for each processor */
  dg_text device;       /**< "cpu" (also if not given), "cuda" or "cuda:N" */
  uint32_t metrics;     /**< DG_METRICS_ALL or DG_METRICS_CORE */
  uint32_t top_k;       /**< of topk_overlap, 1 to 1024; 0: the contract's, or 10 */
  uint32_t top_rows;    /**< worst rows to report, at most 10000; 0: 20; DG_NO_TOP_ROWS: none */
  uint32_t keep_rows;   /**< 1: keep every row's figures for dg_result_column, 144 bytes a row. Full logits and hidden
                             states only: DG_UNSUPPORTED otherwise. NaN where a clause on tokens finds others */
  dg_progress progress; /**< or NULL */
  void* user;           /**< for progress */
} dg_options;

typedef struct dg_inputs {
  uint32_t struct_size;
  uint32_t reserved;
  const dg_capture* train;          /**< of the training kernel, or the reference */
  const dg_capture* inf;            /**< of the inference kernel */
  const dg_corpus* corpus;          /**< or NULL: no slices */
  const dg_contract* contract;      /**< or NULL: figures without a verdict */
  const dg_capture* floor_train[2]; /**< noise floor of the training kernel: one capture, compared with `train`, or two,
                                         compared with each other; NULLs: none */
  const dg_capture* floor_inf[2];   /**< the same of the inference kernel */
} dg_inputs;

/** Measures the drift between two captures and decides the clauses of the contract that captures can decide. A
 *  contract that is violated is no error: see dg_result_verdict. `options` may be NULL. Errors: DG_NOT_COMPARABLE,
 *  DG_INVALID_ARGUMENT, DG_INVALID_CAPTURE (a row without any finite logit), DG_IO (a file that has changed),
 *  DG_UNSUPPORTED and DG_UNAVAILABLE of the device, DG_CANCELLED, DG_NO_MEMORY. */
DG_API dg_status dg_measure(const dg_inputs* inputs, const dg_options* options, dg_result** out, dg_error* error);

/* ---- Results ---- */

/** The verdict over all clauses. */
enum {
  DG_VERDICT_NONE = 0,         /**< there is no contract */
  DG_VERDICT_PASS = 1,
  DG_VERDICT_INCONCLUSIVE = 2, /**< too few samples to tell */
  DG_VERDICT_VIOLATED = 3,
  DG_VERDICT_ERROR = 4         /**< a clause could not be decided, such as by NaN logits */
};
/** Forms of the report. */
enum {
  DG_FORMAT_JSON = 0,     /**< of `driftgate drift --json` */
  DG_FORMAT_MARKDOWN = 1, /**< of --report markdown=F */
  DG_FORMAT_HTML = 2,     /**< of --report html=F: one page that needs no other file */
  DG_FORMAT_JUNIT = 3     /**< of --report junit=F */
};

/** One of DG_VERDICT_...; not NULL. */
DG_API int32_t dg_result_verdict(const dg_result* result);
/** What `driftgate drift` would exit with: 0 pass or no contract, 1 violated, 3 inconclusive, 4 error; not NULL. */
DG_API int32_t dg_result_exit_code(const dg_result* result);
/** The report in one of DG_FORMAT_...; it is made by the first call and lives as long as the result. Errors:
 *  DG_INVALID_ARGUMENT for another format, DG_UNSUPPORTED for one that this library lacks. */
DG_API dg_status dg_result_format(const dg_result* result, uint32_t format, dg_text* text, dg_error* error);
/** The number of rows that were measured; not NULL. */
DG_API uint64_t dg_result_rows(const dg_result* result);

/** The number of figures that each row has (18). */
DG_API uint32_t dg_metric_count(void);
/** The name of figure 0, 1, ...: "logit_max_abs", ..., as in contracts; NULL for a number that there is not. Units are
 *  those of docs/design/measurement.md; divergences and entropies are in nats. */
DG_API const char* dg_metric_name(uint32_t metric);
/** Writes figure `metric` of rows [first, first + count) to `values`, which has room for `count`; NaN where a row has
 *  none. Errors: DG_CONFLICT if the rows were not kept (dg_options.keep_rows), DG_INVALID_ARGUMENT for rows or a
 *  figure that there are not. */
DG_API dg_status dg_result_column(const dg_result* result, uint32_t metric, uint64_t first, uint64_t count,
                                  double* values, dg_error* error);
DG_API void dg_result_close(dg_result* result);

/* ---- Batches during a run ---- */

typedef struct dg_accumulator dg_accumulator;

typedef struct dg_accumulator_options {
  uint32_t struct_size;
  uint32_t reserved;
  const dg_identity* train;    /**< of all rows; may be NULL */
  const dg_identity* inf;      /**< of all rows; may be NULL */
  const dg_corpus* corpus;     /**< or NULL; must hold every sequence that is added */
  const dg_contract* contract; /**< or NULL */
  const dg_options* options;   /**< or NULL; its progress is called in dg_accumulator_add, for the batch, and in
                                    dg_accumulator_finish, for all rows */
  uint64_t max_rows;           /**< DG_LIMIT_EXCEEDED beyond; 0: 16777216 */
} dg_accumulator_options;

/** An accumulator measures batches of rows as they come and reports on all of them as one dg_measure would, to the
 *  bit, whatever the batches: sequences may go on over several batches and mix. It keeps the figures of each row
 *  (about 210 bytes) and no logits; log-probabilities and lists are copied. Errors: DG_INVALID_ARGUMENT. */
DG_API dg_status dg_accumulator_create(const dg_accumulator_options* options, dg_accumulator** out, dg_error* error);
/** Measures a batch and adds it; nothing is added by a call that fails. The batches follow each other in row order.
 *  `train` and `inf` have as many rows; tokens, sequences and positions are those of `train`, and those of `inf` are
 *  equal or NULL. All batches have one mode, vocabulary and width, the same dtypes and head, and the same of
 *  tokens, positions and logprobs in all or in none. The memory may be used for something else
 *  after the call. Errors: those of dg_capture_from_rows and dg_measure. */
DG_API dg_status dg_accumulator_add(dg_accumulator* accumulator, const dg_rows* train, const dg_rows* inf,
                                    dg_error* error);
/** The number of rows that were added; not NULL. */
DG_API uint64_t dg_accumulator_rows(const dg_accumulator* accumulator);
/** The result of all rows so far. More rows may follow, and so may another call. Errors: DG_CONFLICT if there is no
 *  row, DG_NOT_COMPARABLE for a sequence that the corpus does not hold. */
DG_API dg_status dg_accumulator_finish(dg_accumulator* accumulator, dg_result** out, dg_error* error);
DG_API void dg_accumulator_close(dg_accumulator* accumulator);

/* ---- Writing captures ---- */

typedef struct dg_writer dg_writer;

typedef struct dg_writer_options {
  uint32_t struct_size;
  uint32_t reserved;
  const dg_identity* identity; /**< or NULL */
  uint64_t part_bytes;         /**< rows are gathered until a file has about so many bytes; 0: 256 MiB */
} dg_writer_options;

/** Begins a capture in the folder `path`, which is made if it does not exist. Rows become safetensors files
 *  part-000000.safetensors, ..., each of which is there whole or not at all. A folder has one writer at a time: several
 *  processes write to a folder each. Errors: DG_ALREADY_EXISTS if the folder has safetensors files, a head.tensors or
 *  what a writer left unfinished (*.partial), or another writer has not been closed; DG_IO, DG_STORAGE_FULL. */
DG_API dg_status dg_writer_create(dg_text path, const dg_writer_options* options, dg_writer** out, dg_error* error);
/** Appends rows, which may be used for something else after the call. All calls give the same matrices, dtypes and
 *  columns. The head of hidden states is written once, to head.tensors. No file is replaced:
 *  DG_ALREADY_EXISTS where another writer made it, which dg_writer_create does not see on some network file systems.
 *  After an error other than DG_INVALID_ARGUMENT and DG_INVALID_CAPTURE the writer can only be closed. */
DG_API dg_status dg_writer_append(dg_writer* writer, const dg_rows* rows, dg_error* error);
/** Writes what is left. Then `path` is a capture that dg_capture_open and `driftgate drift` read. Errors: DG_CONFLICT
 *  if there is no row or it was finished before; DG_IO, DG_STORAGE_FULL. */
DG_API dg_status dg_writer_finish(dg_writer* writer, dg_error* error);
/** Without dg_writer_finish, rows that are not in a file yet are lost. */
DG_API void dg_writer_close(dg_writer* writer);

#ifdef __cplusplus
}
#endif

#endif
