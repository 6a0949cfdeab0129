/* Every kind of refusal, and that nothing is left behind by one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

static float logits[4 * 6];
static const int64_t tokens[4] = {0, 1, 2, 5};

static dg_rows small_rows(void) {
  dg_rows rows;
  size_t i = 0;
  for (i = 0; i < 24; ++i) logits[i] = (float)(i % 5);
  memset(&rows, 0, sizeof(rows));
  rows.struct_size = sizeof(rows);
  rows.rows = 4;
  rows.tokens = tokens;
  rows.logits.data = logits;
  rows.logits.columns = 6;
  return rows;
}

static dg_capture* capture_of(const dg_rows* rows) {
  dg_capture* out = NULL;
  OK(dg_capture_from_rows(rows, NULL, dg_text_of(NULL), &out, &problem));
  return out;
}

static void arguments_are_checked(void) {
  dg_capture* capture = NULL;
  dg_inputs inputs;
  dg_result* result = NULL;
  const dg_text broken = {NULL, 3};
  memset(&inputs, 0, sizeof(inputs));
  REFUSED(dg_capture_open(dg_text_of("x"), NULL, NULL, &problem), DG_INVALID_ARGUMENT, "out is NULL");
  REFUSED(dg_capture_open(dg_text_of(NULL), NULL, &capture, &problem), DG_INVALID_ARGUMENT, "is empty");
  REFUSED(dg_capture_open(broken, NULL, &capture, &problem), DG_INVALID_ARGUMENT, "is NULL");
  REFUSED(dg_capture_from_rows(NULL, NULL, broken, &capture, &problem), DG_INVALID_ARGUMENT, "rows is NULL");
  REFUSED(dg_measure(NULL, NULL, &result, &problem), DG_INVALID_ARGUMENT, "the inputs is NULL");
  REFUSED(dg_measure(&inputs, NULL, &result, &problem), DG_INVALID_ARGUMENT, "struct_size of the inputs is 0");
  inputs.struct_size = sizeof(inputs);
  REFUSED(dg_measure(&inputs, NULL, &result, &problem), DG_INVALID_ARGUMENT, "train is NULL");
  REFUSED(dg_accumulator_add(NULL, NULL, NULL, &problem), DG_INVALID_ARGUMENT, "accumulator is NULL");
  REFUSED(dg_writer_append(NULL, NULL, &problem), DG_INVALID_ARGUMENT, "writer is NULL");
  CHECK(dg_measure(&inputs, NULL, &result, NULL) == DG_INVALID_ARGUMENT); /* without a place for the message */
  CHECK(capture == NULL && result == NULL);
}

static void a_longer_struct_of_a_later_version_is_read_as_far_as_it_is_known(void) {
  struct {
    dg_options known;
    uint64_t later;
  } options;
  dg_rows rows = small_rows();
  dg_capture* capture = capture_of(&rows);
  dg_inputs inputs;
  dg_result* result = NULL;
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = inputs.inf = capture;
  memset(&options, 0, sizeof(options));
  options.known.struct_size = sizeof(options);
  OK(dg_measure(&inputs, &options.known, &result, &problem));
  dg_result_close(result);
  options.later = 1;
  REFUSED(dg_measure(&inputs, &options.known, &result, &problem), DG_UNSUPPORTED, "does not know");
  options.known.struct_size = 8; /* of an earlier version: what follows is not read */
  options.known.threads = 1;
  options.known.metrics = 99;
  OK(dg_measure(&inputs, &options.known, &result, &problem));
  dg_result_close(result);
  dg_capture_close(capture);
}

static void refuse_rows(const dg_rows* rows, dg_status status, const char* part) {
  dg_capture* capture = NULL;
  REFUSED(dg_capture_from_rows(rows, NULL, dg_text_of("mine"), &capture, &problem), status, part);
  CHECK(capture == NULL);
}

static void rows_that_make_no_sense_are_refused(void) {
  static const int64_t outside[4] = {0, 1, 6, 2}, twice[4] = {1, 1, 2, 3};
  static const float logprobs[4] = {-1, -1, -1, -1};
  dg_rows rows = small_rows();
  rows.rows = 0;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "mine: there are no rows");
  rows.rows = UINT64_MAX / 2;
  refuse_rows(&rows, DG_LIMIT_EXCEEDED, "at most");
  rows = small_rows();
  rows.logits.columns = 0;
  refuse_rows(&rows, DG_INVALID_CAPTURE, "[4, 0]");
  rows.logits.columns = UINT32_MAX;
  refuse_rows(&rows, DG_INVALID_CAPTURE, "larger than");
  rows = small_rows();
  rows.logits.row_stride_bytes = 23;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "24 bytes cannot be 23 bytes apart");
  rows.logits.row_stride_bytes = UINT64_MAX / 2;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "bytes apart");
  rows = small_rows();
  rows.logits.dtype = DG_I32;
  refuse_rows(&rows, DG_INVALID_CAPTURE, "is I32");
  rows.logits.dtype = 17;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "dtype 17");
  rows = small_rows();
  rows.tokens = outside;
  refuse_rows(&rows, DG_INVALID_CAPTURE, "token_ids of row 2 is 6");
  rows = small_rows();
  rows.hidden = rows.logits;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "only one of");
  rows.logits.data = NULL;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "need a head");
  rows.hidden.data = NULL;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "is needed");
  rows.memory = 2;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "memory");
  rows.memory = DG_MEMORY_CUDA;
  refuse_rows(&rows, DG_UNSUPPORTED, "memory of a device");
  rows = small_rows();
  rows.logits.data = NULL;
  rows.topk_ids.data = twice;
  rows.topk_ids.dtype = DG_I64;
  rows.topk_ids.columns = rows.topk_logprobs.columns = 2;
  rows.rows = 2;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "given together");
  rows.topk_logprobs.data = logprobs;
  refuse_rows(&rows, DG_INVALID_CAPTURE, "token 1 twice");
  rows.logprob_error = NAN;
  refuse_rows(&rows, DG_INVALID_ARGUMENT, "logprob_error");
  memset(&rows.topk_ids, 0, sizeof(rows.topk_ids));
  memset(&rows.topk_logprobs, 0, sizeof(rows.topk_logprobs));
  rows.logprob_error = 0;
  rows.logprobs = logprobs;
  rows.tokens = NULL;
  refuse_rows(&rows, DG_INVALID_CAPTURE, "token_ids");
}

static void identities_are_checked(void) {
  dg_rows rows = small_rows();
  dg_identity identity;
  dg_capture *capture = NULL, *other = NULL;
  dg_inputs inputs;
  dg_result* result = NULL;
  char* large = malloc(5000);
  CHECK(large != NULL);
  memset(large, 'x', 5000);
  memset(&identity, 0, sizeof(identity));
  identity.struct_size = sizeof(identity);
  identity.kernel = dg_text_of("\xff\xfe");
  REFUSED(dg_capture_from_rows(&rows, &identity, dg_text_of(NULL), &capture, &problem), DG_INVALID_ARGUMENT, "not UTF-8");
  identity.kernel.data = large;
  identity.kernel.size = 5000;
  REFUSED(dg_capture_from_rows(&rows, &identity, dg_text_of(NULL), &capture, &problem), DG_LIMIT_EXCEEDED, "5000 bytes");
  identity.kernel = dg_text_of("k");
  identity.temperature = NAN;
  REFUSED(dg_capture_from_rows(&rows, &identity, dg_text_of(NULL), &capture, &problem), DG_INVALID_CAPTURE, "temperature");
  identity.temperature = 0.5;
  OK(dg_capture_from_rows(&rows, &identity, dg_text_of(NULL), &capture, &problem));
  other = capture_of(&rows);
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = capture;
  inputs.inf = other;
  REFUSED(dg_measure(&inputs, NULL, &result, &problem), DG_NOT_COMPARABLE, "temperature differs");
  inputs.inf = capture;
  inputs.floor_train[0] = capture;
  REFUSED(dg_measure(&inputs, NULL, &result, &problem), DG_INVALID_ARGUMENT, "with itself");
  dg_capture_close(capture);
  dg_capture_close(other);
  free(large);
}

static void options_are_checked(void) {
  dg_rows rows = small_rows();
  dg_capture* capture = capture_of(&rows);
  dg_inputs inputs;
  dg_options options;
  dg_result* result = NULL;
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = inputs.inf = capture;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.device = dg_text_of("tpu");
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_INVALID_ARGUMENT, "tpu");
  options.device = dg_text_of("cuda:0,1");
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_UNSUPPORTED, "on one device");
  options.device = dg_text_of("cpu");
  options.threads = 1025;
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_INVALID_ARGUMENT, "1024");
  options.threads = 0;
  options.top_k = 1025;
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_INVALID_ARGUMENT, "top_k");
  options.top_k = 0;
  options.top_rows = 10001;
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_INVALID_ARGUMENT, "10000");
  options.top_rows = DG_NO_TOP_ROWS;
  options.metrics = 2;
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_INVALID_ARGUMENT, "DG_METRICS_ALL");
  options.metrics = 0;
  options.keep_rows = 2;
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_INVALID_ARGUMENT, "keep_rows");
  options.keep_rows = 0;
  OK(dg_measure(&inputs, &options, &result, &problem));
  {
    dg_text text = {NULL, 0};
    REFUSED(dg_result_format(result, 9, &text, &problem), DG_INVALID_ARGUMENT, "no format 9");
  }
  dg_result_close(result);
  dg_capture_close(capture);
}

static void rows_on_a_device_are_not_read_by_the_cpu(void) {
  dg_rows rows = small_rows();
  dg_capture* capture = NULL;
  dg_inputs inputs;
  dg_options options;
  dg_accumulator* accumulator = NULL;
  dg_writer* writer = NULL;
  dg_result* result = NULL;
  rows.memory = DG_MEMORY_CUDA;
  rows.logits.data = (const void*)64; /* which the CPU could not read */
  capture = capture_of(&rows);
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = inputs.inf = capture;
  REFUSED(dg_measure(&inputs, NULL, &result, &problem), DG_INVALID_ARGUMENT, "memory of a device");
  OK(dg_accumulator_create(NULL, &accumulator, &problem));
  REFUSED(dg_accumulator_add(accumulator, &rows, &rows, &problem), DG_INVALID_ARGUMENT, "memory of a device");
  dg_accumulator_close(accumulator);
  OK(dg_writer_create(dg_text_of(own_path("device")), NULL, &writer, &problem));
  REFUSED(dg_writer_append(writer, &rows, &problem), DG_INVALID_ARGUMENT, "memory of a device");
  dg_writer_close(writer);
  dg_capture_close(capture);
  rows = small_rows();
  inputs.train = inputs.inf = capture = capture_of(&rows);
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.device = dg_text_of("cuda:63"); /* the backend is asked, and no other one takes its place */
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_UNAVAILABLE, "cuda");
  dg_capture_close(capture);
}

static void documents_are_checked(void) {
  dg_corpus* corpus = NULL;
  dg_contract* contract = NULL;
  const dg_text missing = dg_text_of("/nonexistent/file");
  REFUSED(dg_corpus_open(missing, &corpus, &problem), DG_NOT_FOUND, "/nonexistent/file");
  REFUSED(dg_contract_open(missing, &contract, &problem), DG_IO, "/nonexistent/file");
  REFUSED(dg_corpus_parse(dg_text_of("{\"sequence\": 1}\n{}\n"), dg_text_of("mine"), &corpus, &problem),
          DG_INVALID_DOCUMENT, "mine:2");
  REFUSED(dg_contract_parse(dg_text_of("kind: Something\n"), dg_text_of(NULL), &contract, &problem), DG_INVALID_DOCUMENT,
          "contract:1:");
  OK(dg_corpus_parse(dg_text_of(NULL), dg_text_of(NULL), &corpus, &problem)); /* without sequences */
  {
    dg_rows rows = small_rows();
    dg_inputs inputs;
    dg_result* result = NULL;
    memset(&inputs, 0, sizeof(inputs));
    inputs.struct_size = sizeof(inputs);
    inputs.train = inputs.inf = capture_of(&rows);
    inputs.corpus = corpus;
    REFUSED(dg_measure(&inputs, NULL, &result, &problem), DG_NOT_COMPARABLE, "the corpus does not");
    dg_capture_close((dg_capture*)inputs.train);
  }
  dg_corpus_close(corpus);
}

static void long_messages_are_cut_between_characters(void) {
  size_t i = 0, size = 3 * 6000;
  char* path = malloc(size + 1);
  dg_contract* contract = NULL;
  CHECK(path != NULL);
  for (i = 0; i < 6000; ++i) memcpy(path + 3 * i, "\xe2\x82\xac", 3);
  path[size] = '\0';
  path[0] = 'k'; /* not UTF-8 from here on is of no interest: the name is */
  path[1] = path[2] = 'k';
  {
    char* text = malloc(size + 5);
    CHECK(text != NULL);
    memcpy(text, path, size);
    memcpy(text + size, ": 1\n", 5);
    CHECK(dg_contract_parse(dg_text_of(text), dg_text_of(NULL), &contract, &problem) == DG_INVALID_DOCUMENT);
    free(text);
  }
  CHECK(problem.message_bytes == dg_last_error().size);
  CHECK(strlen(problem.message) < DG_MESSAGE_BYTES);
  CHECK(memcmp(problem.message, dg_last_error().data, strlen(problem.message)) == 0);
  if (problem.message_bytes >= DG_MESSAGE_BYTES) CHECK(strlen(problem.message) + 4 > DG_MESSAGE_BYTES);
  free(path);
}

static int stop_at_once(void* user, uint64_t done, uint64_t total) {
  CHECK(done <= total && total == 4);
  ++*(int*)user;
  return 1;
}

static void a_callback_stops_a_measurement(void) {
  dg_rows rows = small_rows();
  dg_capture* capture = capture_of(&rows);
  dg_inputs inputs;
  dg_options options;
  dg_accumulator_options batches;
  dg_accumulator* accumulator = NULL;
  dg_result* result = NULL;
  int calls = 0;
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = inputs.inf = capture;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.progress = stop_at_once;
  options.user = &calls;
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_CANCELLED, "asked to stop");
  CHECK(calls == 1 && result == NULL);
  memset(&batches, 0, sizeof(batches));
  batches.struct_size = sizeof(batches);
  batches.options = &options;
  OK(dg_accumulator_create(&batches, &accumulator, &problem));
  REFUSED(dg_accumulator_add(accumulator, &rows, &rows, &problem), DG_CANCELLED, "asked to stop");
  CHECK(calls == 2 && dg_accumulator_rows(accumulator) == 0);
  REFUSED(dg_accumulator_finish(accumulator, &result, &problem), DG_CONFLICT, "no rows");
  dg_accumulator_close(accumulator);
  dg_capture_close(capture);
}

static void a_batch_that_fails_adds_nothing(void) {
  dg_rows rows = small_rows(), other = small_rows();
  dg_accumulator_options options;
  dg_accumulator* accumulator = NULL;
  dg_result *result = NULL, *again = NULL;
  static const int64_t different[4] = {0, 1, 2, 4};
  static float masked[6] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.max_rows = 12;
  OK(dg_accumulator_create(&options, &accumulator, &problem));
  OK(dg_accumulator_add(accumulator, &rows, &rows, &problem));
  OK(dg_accumulator_finish(accumulator, &result, &problem));
  other.tokens = different;
  REFUSED(dg_accumulator_add(accumulator, &rows, &other, &problem), DG_NOT_COMPARABLE, "token_ids differs");
  other = part_of(&rows, 0, 3);
  REFUSED(dg_accumulator_add(accumulator, &rows, &other, &problem), DG_NOT_COMPARABLE, "4 rows of train and 3");
  other = small_rows();
  other.tokens = NULL;
  REFUSED(dg_accumulator_add(accumulator, &other, &other, &problem), DG_NOT_COMPARABLE, "in all batches or in none");
  other = small_rows();
  other.logits.columns = 5;
  other.tokens = NULL;
  REFUSED(dg_accumulator_add(accumulator, &other, &other, &problem), DG_NOT_COMPARABLE, "batches");
  other = small_rows();
  other.rows = 1;
  other.logits.data = masked;
  REFUSED(dg_accumulator_add(accumulator, &other, &other, &problem), DG_INVALID_CAPTURE, "row 4 (sequence 0, position 4)");
  CHECK(dg_accumulator_rows(accumulator) == 4);
  other.rows = 0;
  OK(dg_accumulator_add(accumulator, &other, &other, &problem));
  OK(dg_accumulator_finish(accumulator, &again, &problem));
  same_json(result, again);
  OK(dg_accumulator_add(accumulator, &rows, &rows, &problem));
  OK(dg_accumulator_add(accumulator, &rows, &rows, &problem));
  REFUSED(dg_accumulator_add(accumulator, &rows, &rows, &problem), DG_LIMIT_EXCEEDED, "max_rows");
  dg_result_close(result);
  dg_result_close(again);
  dg_accumulator_close(accumulator);
}

static void writers_refuse_what_would_not_be_a_capture(void) {
  dg_rows rows = small_rows();
  dg_writer *writer = NULL, *second = NULL;
  OK(dg_writer_create(dg_text_of(own_path("out/deep")), NULL, &writer, &problem));
  REFUSED(dg_writer_finish(writer, &problem), DG_CONFLICT, "no rows");
  OK(dg_writer_append(writer, &rows, &problem));
  rows.tokens = NULL;
  REFUSED(dg_writer_append(writer, &rows, &problem), DG_INVALID_ARGUMENT, "differ from those of the rows before");
  rows = small_rows();
  rows.logits.columns = 3;
  REFUSED(dg_writer_append(writer, &rows, &problem), DG_INVALID_CAPTURE, "token_ids");
  OK(dg_writer_finish(writer, &problem));
  dg_writer_close(writer);
  REFUSED(dg_writer_create(dg_text_of(own_path("out/deep")), NULL, &second, &problem), DG_ALREADY_EXISTS,
          "part-000000.safetensors");
  REFUSED(dg_writer_create(dg_text_of("/proc/none/such"), NULL, &second, &problem), DG_IO, "/proc/none/such");
  CHECK(second == NULL);
}

typedef struct calls {
  int count, stop_at;
  uint64_t last, total;
} calls;

static int count_calls(void* user, uint64_t done, uint64_t total) {
  calls* to = user;
  CHECK(done > to->last && done <= total && (to->count == 0 || total == to->total));
  to->last = done;
  to->total = total;
  return ++to->count == to->stop_at;
}

static void floors_and_the_end_of_batches_report_progress_and_can_be_stopped(void) {
  dg_rows rows = small_rows();
  dg_inputs inputs;
  dg_options options;
  dg_accumulator_options batches;
  dg_accumulator* accumulator = NULL;
  dg_result* result = NULL;
  calls seen;
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = capture_of(&rows);
  inputs.inf = capture_of(&rows);
  inputs.floor_train[0] = capture_of(&rows);
  inputs.floor_inf[0] = capture_of(&rows);
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.progress = count_calls;
  options.user = &seen;
  memset(&seen, 0, sizeof(seen));
  OK(dg_measure(&inputs, &options, &result, &problem));
  CHECK(seen.count == 3 && seen.last == 12 && seen.total == 12);
  dg_result_close(result);
  memset(&seen, 0, sizeof(seen));
  seen.stop_at = 1;
  result = NULL;
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_CANCELLED, "asked to stop");
  CHECK(seen.last == 4 && result == NULL); /* in the first floor */
  memset(&batches, 0, sizeof(batches));
  batches.struct_size = sizeof(batches);
  batches.options = &options;
  memset(&seen, 0, sizeof(seen));
  OK(dg_accumulator_create(&batches, &accumulator, &problem));
  OK(dg_accumulator_add(accumulator, &rows, &rows, &problem));
  memset(&seen, 0, sizeof(seen));
  seen.stop_at = 1;
  REFUSED(dg_accumulator_finish(accumulator, &result, &problem), DG_CANCELLED, "asked to stop");
  CHECK(seen.last == 4 && result == NULL);
  memset(&seen, 0, sizeof(seen));
  OK(dg_accumulator_finish(accumulator, &result, &problem));
  CHECK(seen.count == 1 && dg_result_rows(result) == 4);
  dg_result_close(result);
  dg_accumulator_close(accumulator);
  dg_capture_close((dg_capture*)inputs.train);
  dg_capture_close((dg_capture*)inputs.inf);
  dg_capture_close((dg_capture*)inputs.floor_train[0]);
  dg_capture_close((dg_capture*)inputs.floor_inf[0]);
}

static void a_floor_in_the_memory_of_a_device_is_measured_there(void) {
  dg_rows rows = small_rows();
  dg_inputs inputs;
  dg_options options;
  dg_result* result = NULL;
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = capture_of(&rows); /* which the CPU could measure */
  inputs.inf = capture_of(&rows);
  rows.memory = DG_MEMORY_CUDA;
  rows.logits.data = (const void*)64;
  inputs.floor_train[0] = capture_of(&rows);
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.device = dg_text_of("cuda:63"); /* that there is not: what matters is that it is asked */
  REFUSED(dg_measure(&inputs, &options, &result, &problem), DG_UNAVAILABLE, "the train floor: device cuda");
  dg_capture_close((dg_capture*)inputs.train);
  dg_capture_close((dg_capture*)inputs.inf);
  dg_capture_close((dg_capture*)inputs.floor_train[0]);
}

static void rows_that_have_no_figures_of_their_own_are_not_kept(void) {
  static const float logprobs[4] = {-1, -2, -1, -3};
  dg_rows rows = small_rows();
  dg_options options;
  dg_accumulator_options batches;
  dg_accumulator* accumulator = NULL;
  memset(&rows.logits, 0, sizeof(rows.logits));
  rows.logprobs = logprobs;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.keep_rows = 1;
  memset(&batches, 0, sizeof(batches));
  batches.struct_size = sizeof(batches);
  batches.options = &options;
  OK(dg_accumulator_create(&batches, &accumulator, &problem));
  REFUSED(dg_accumulator_add(accumulator, &rows, &rows, &problem), DG_UNSUPPORTED, "keep_rows");
  CHECK(dg_accumulator_rows(accumulator) == 0);
  dg_accumulator_close(accumulator);
}

static void a_folder_has_one_writer(void) {
  dg_rows rows = small_rows();
  dg_writer *first = NULL, *second = NULL;
  dg_capture* capture = NULL;
  dg_capture_info info;
  OK(dg_writer_create(dg_text_of(own_path("one")), NULL, &first, &problem));
  REFUSED(dg_writer_create(dg_text_of(own_path("one")), NULL, &second, &problem), DG_ALREADY_EXISTS,
          "another writer");
  dg_writer_close(first); /* that has written nothing */
  OK(dg_writer_create(dg_text_of(own_path("one")), NULL, &first, &problem));
  OK(dg_writer_append(first, &rows, &problem));
  write_text(own_path("one/part-000000.safetensors"), "of another");
  REFUSED(dg_writer_finish(first, &problem), DG_ALREADY_EXISTS, "part-000000.safetensors");
  dg_writer_close(first);
  {
    size_t size = 0;
    char* kept = read_whole(own_path("one/part-000000.safetensors"), &size);
    CHECK(strcmp(kept, "of another") == 0);
    free(kept);
  }
  OK(dg_writer_create(dg_text_of(own_path("two")), NULL, &first, &problem));
  write_text(own_path("two/part-000000.safetensors.partial"), "left");
  REFUSED(dg_writer_append(first, NULL, &problem), DG_INVALID_ARGUMENT, "is NULL");
  OK(dg_writer_append(first, &rows, &problem));
  REFUSED(dg_writer_finish(first, &problem), DG_ALREADY_EXISTS, ".partial");
  dg_writer_close(first);
  REFUSED(dg_writer_create(dg_text_of(own_path("two")), NULL, &second, &problem), DG_ALREADY_EXISTS,
          ".partial");
  OK(dg_writer_create(dg_text_of(own_path("three")), NULL, &first, &problem));
  dg_writer_close(first);
  write_text(own_path("three/head.tensors"), "of another");
  REFUSED(dg_writer_create(dg_text_of(own_path("three")), NULL, &second, &problem), DG_ALREADY_EXISTS,
          "head.tensors");
  CHECK(second == NULL);
  OK(dg_writer_create(dg_text_of(own_path("four")), NULL, &first, &problem));
  OK(dg_writer_append(first, &rows, &problem));
  OK(dg_writer_finish(first, &problem));
  dg_writer_close(first);
  OK(dg_capture_open(dg_text_of(own_path("four")), NULL, &capture, &problem));
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  OK(dg_capture_get_info(capture, &info, &problem));
  CHECK(info.rows == 4);
  dg_capture_close(capture);
}

const test_case error_tests[] = {
    {"floors_and_the_end_of_batches_report_progress_and_can_be_stopped",
     floors_and_the_end_of_batches_report_progress_and_can_be_stopped},
    {"a_floor_in_the_memory_of_a_device_is_measured_there",
     a_floor_in_the_memory_of_a_device_is_measured_there},
    {"rows_that_have_no_figures_of_their_own_are_not_kept",
     rows_that_have_no_figures_of_their_own_are_not_kept},
    {"a_folder_has_one_writer", a_folder_has_one_writer},
    {"arguments_are_checked", arguments_are_checked},
    {"a_longer_struct_of_a_later_version_is_read_as_far_as_it_is_known",
     a_longer_struct_of_a_later_version_is_read_as_far_as_it_is_known},
    {"rows_that_make_no_sense_are_refused", rows_that_make_no_sense_are_refused},
    {"identities_are_checked", identities_are_checked},
    {"options_are_checked", options_are_checked},
    {"rows_on_a_device_are_not_read_by_the_cpu", rows_on_a_device_are_not_read_by_the_cpu},
    {"documents_are_checked", documents_are_checked},
    {"long_messages_are_cut_between_characters", long_messages_are_cut_between_characters},
    {"a_callback_stops_a_measurement", a_callback_stops_a_measurement},
    {"a_batch_that_fails_adds_nothing", a_batch_that_fails_adds_nothing},
    {"writers_refuse_what_would_not_be_a_capture", writers_refuse_what_would_not_be_a_capture},
    {NULL, NULL},
};
