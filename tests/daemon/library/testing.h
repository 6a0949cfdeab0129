/* What the tests of the C interface share. Each test is a function; the first failed check ends the program. */
#ifndef DRIFTGATE_TESTS_LIBRARY_TESTING_H
#define DRIFTGATE_TESTS_LIBRARY_TESTING_H

#include <stdint.h>
#include <stdio.h>

#include "driftgate.h"

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) fail_test(__FILE__, __LINE__, #condition);                \
  } while (0)
/** Checks that a call succeeds, and prints its message otherwise. */
#define OK(call)                                                                \
  do {                                                                          \
    if ((call) != DG_OK) fail_test(__FILE__, __LINE__, dg_last_error().data);   \
  } while (0)
/** Checks that a call fails with a status and a message that contains a text. */
#define REFUSED(call, wanted, part) refused(__FILE__, __LINE__, (call), (wanted), (part), &problem)

void fail_test(const char* file, int line, const char* what);
void refused(const char* file, int line, dg_status status, dg_status wanted, const char* part, const dg_error* error);
extern dg_error problem;

/** The path of a file of tests/vectors; valid until the second call after it. */
const char* vector_path(const char* name);
/** The path of a file in this test's own folder; valid until the fourth call after it. */
const char* own_path(const char* name);
void write_text(const char* path, const char* text);
/** The bytes of a file, with a NUL behind them; free them. */
char* read_whole(const char* path, size_t* size);
/** Runs `driftgate drift --json F` with these arguments and returns the JSON; free it. Its exit code goes to `code`. */
char* command_json(const char* arguments, size_t* size, int* code);
/** Checks that the JSON of a result, and its exit code, are those of `driftgate drift` with these arguments. */
void same_as_command(const dg_result* result, const char* arguments);
void same_json(const dg_result* a, const dg_result* b);

dg_capture* open_vector(const char* name);
dg_corpus* tiny_corpus(void);
/** A contract that the tiny captures can decide; bits of logits are compared, too. */
dg_contract* tiny_contract(void);
const char* tiny_contract_path(void);
/** Rows that refer to the first piece of a capture. */
dg_rows rows_of(const dg_capture* capture);
/** Rows [first, first + count) of rows in memory. */
dg_rows part_of(const dg_rows* rows, uint64_t first, uint64_t count);
dg_identity identity_of(const dg_capture* capture);
uint64_t next_random(uint64_t* state);
size_t element_bytes(uint32_t dtype);

typedef struct test_case {
  const char* name;
  void (*run)(void);
} test_case;
extern const test_case capture_tests[], batch_tests[], error_tests[], thread_tests[];

#endif
