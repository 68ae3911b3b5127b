// SPDX-License-Identifier: GPL-2.0-only
/* Runs all tests of vm_snapshot, or those whose name contains the argument. Lines as TAP has them. */
#include "check.h"

#include <time.h>

static void run_one(void *test)
{
	((const struct test *)test)->run();
}

int main(int count, char **arguments)
{
	const struct test *all[] = { range_tests, error_tests, page_tests, swap_tests, failure_tests,
				     load_tests };
	int number = 0, failed = 0;
	struct timespec start, end;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t group = 0; group < sizeof(all) / sizeof(all[0]); group++)
		for (const struct test *test = all[group]; test->name; test++) {
			int state;

			if (count > 1 && !strstr(test->name, arguments[1]))
				continue;
			clock_gettime(CLOCK_MONOTONIC, &start);
			state = in_child(run_one, (void *)test);
			clock_gettime(CLOCK_MONOTONIC, &end);
			failed += state != 0;
			if (state > 128)
				printf("# signal %d\n", state - 128);
			printf("%s %d - %s (%ld ms)\n", state ? "not ok" : "ok", ++number, test->name,
			       (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000);
		}
	printf("1..%d\n", number);
	return failed != 0 || number == 0;
}
