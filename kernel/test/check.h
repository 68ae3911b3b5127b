/* SPDX-License-Identifier: GPL-2.0-only */
/* What all tests of vm_snapshot use: the call, patterns of pages, and what the kernel tells. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1024 * 1024ul)
#define HUGE (2 * MIB)
#define CALL_NUMBER 451

/* A test says what is wrong and ends its process, so that the next one starts afresh. */
#define EXPECT(condition, ...)                                                   \
	do {                                                                     \
		if (!(condition)) {                                              \
			printf("# %s:%d: %s: ", __FILE__, __LINE__, #condition); \
			printf(__VA_ARGS__);                                     \
			printf(" (errno %d)\n", errno);                          \
			fflush(stdout);                                          \
			_exit(1);                                                \
		}                                                                \
	} while (0)

struct test {
	const char *name;
	void (*run)(void);
};

extern const struct test range_tests[], error_tests[], page_tests[], swap_tests[], failure_tests[],
	load_tests[];

/* The call itself: an address, or MAP_FAILED and errno. */
char *vm_snapshot(const void *source, size_t bytes);
/* The same; a refusal fails the test. */
char *snapshot(const void *source, size_t bytes);
void expect_refused(const void *source, size_t bytes, int error, const char *why);

/* Memory in small pages, in huge ones (aligned to them), or of a file in memory. */
char *small_pages(size_t bytes);
char *huge_pages(size_t bytes);
int memory_file(size_t bytes);
void release(void *start, size_t bytes);

/* Page i of a pattern holds mark + i at both ends. */
void fill(char *start, size_t bytes, uint64_t mark);
void expect_pattern(const char *start, size_t bytes, uint64_t mark, const char *of);
void set_page(char *page, uint64_t value);
uint64_t page_value(const char *page);

/* An entry of /proc/self/pagemap: which page, or which place of swap. */
enum { PRESENT = 1, SWAPPED = 2 };
struct place {
	int where; /* 0: nowhere */
	uint64_t number;
};
struct place place_of(const void *address);
/* All pages of both ranges are the same pages. */
void expect_shared(const char *first, const char *second, size_t bytes);
void expect_apart(const char *first, const char *second, size_t bytes);

/* Pins memory as a device would (io_uring), until the file that this returns is closed. */
int pin_pages(char *start, size_t bytes);

/* A figure from /proc/self/status in KiB, or from the area of an address in /proc/self/smaps. */
long status(const char *name);
long area_figure(const void *address, const char *name);
/* A figure of a file of /proc or /sys; -1 when there is no such file. */
long read_figure(const char *path);
bool write_text(const char *path, const char *text);
/* The address space as text, to compare. It holds until the next call but one. */
const char *maps(void);

/* Runs a part in another process. Returns its exit status, or 128 and its signal. */
int in_child(void (*part)(void *), void *with);

/* Numbers that look random, from a seed. */
uint64_t next_number(uint64_t *seed);

#endif
