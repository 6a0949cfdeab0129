/* Threads: several measure at once, with captures, a corpus and a contract that they share. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

typedef struct job {
  dg_inputs inputs;
  dg_result* results[3];
  int failed;
} job;

static void* measure_often(void* given) {
  job* mine = given;
  dg_error own = {sizeof(dg_error), 0, 0, {0}};
  dg_options options;
  int i = 0;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.threads = 1;
  for (i = 0; i < 3; ++i) {
    dg_capture* none = NULL;
    if (dg_measure(&mine->inputs, &options, &mine->results[i], &own) != DG_OK) mine->failed = 1;
    /* A message belongs to the thread that caused it. */
    if (dg_capture_open(dg_text_of("/nonexistent/nowhere"), NULL, &none, &own) != DG_NOT_FOUND) mine->failed = 1;
  }
  if (strstr(dg_last_error().data, "nowhere") == NULL) mine->failed = 1;
  return NULL;
}

static void threads_measure_at_once(void) {
  dg_capture* train = open_vector("tiny_f32.safetensors");
  dg_capture* inf = open_vector("tiny_bf16.safetensors");
  dg_corpus* corpus = tiny_corpus();
  dg_contract* contract = tiny_contract();
  pthread_t threads[4];
  job jobs[4];
  int at = 0, i = 0;
  memset(jobs, 0, sizeof(jobs));
  for (at = 0; at < 4; ++at) {
    jobs[at].inputs.struct_size = sizeof(dg_inputs);
    jobs[at].inputs.train = train;
    jobs[at].inputs.inf = inf;
    jobs[at].inputs.corpus = corpus;
    jobs[at].inputs.contract = contract;
  }
  for (at = 0; at < 4; ++at) CHECK(pthread_create(&threads[at], NULL, measure_often, &jobs[at]) == 0);
  for (at = 0; at < 4; ++at) CHECK(pthread_join(threads[at], NULL) == 0);
  CHECK(dg_last_error().size == 0);
  for (at = 0; at < 4; ++at) {
    CHECK(jobs[at].failed == 0);
    for (i = 0; i < 3; ++i) {
      same_json(jobs[0].results[0], jobs[at].results[i]);
      if (at + i > 0) dg_result_close(jobs[at].results[i]);
    }
  }
  dg_result_close(jobs[0].results[0]);
  dg_capture_close(train);
  dg_capture_close(inf);
  dg_corpus_close(corpus);
  dg_contract_close(contract);
}

static void* format_it(void* result) {
  dg_text text = {NULL, 0};
  return dg_result_format(result, DG_FORMAT_JSON, &text, NULL) == DG_OK ? (void*)(uintptr_t)text.data : NULL;
}

static void threads_share_the_text_of_a_result(void) {
  dg_capture* train = open_vector("tiny_f32.safetensors");
  dg_inputs inputs;
  dg_result* result = NULL;
  pthread_t threads[4];
  void* texts[4];
  int at = 0;
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = inputs.inf = train;
  OK(dg_measure(&inputs, NULL, &result, &problem));
  for (at = 0; at < 4; ++at) CHECK(pthread_create(&threads[at], NULL, format_it, result) == 0);
  for (at = 0; at < 4; ++at) CHECK(pthread_join(threads[at], &texts[at]) == 0);
  for (at = 0; at < 4; ++at) CHECK(texts[at] != NULL && texts[at] == texts[0]);
  dg_result_close(result);
  dg_capture_close(train);
}

const test_case thread_tests[] = {
    {"threads_measure_at_once", threads_measure_at_once},
    {"threads_share_the_text_of_a_result", threads_share_the_text_of_a_result},
    {NULL, NULL},
};
