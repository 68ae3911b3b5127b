// SPDX-License-Identifier: GPL-2.0-only
/* Each allocation of memory that a snapshot makes fails once (fault injection of the kernel). */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define DEBUG "/sys/kernel/debug"
#define CALLS_MAX 20000

/* Lets fail what the tests of other kernels spare: allocations that may wait. */
static bool failures_possible(void)
{
	if (access("/proc/self/fail-nth", W_OK) != 0) {
		printf("# not run: this kernel cannot let allocations fail\n");
		return false;
	}
	EXPECT(write_text(DEBUG "/failslab/ignore-gfp-wait", "0") &&
	       write_text(DEBUG "/fail_page_alloc/ignore-gfp-wait", "0") &&
	       write_text(DEBUG "/fail_page_alloc/ignore-gfp-highmem", "0") &&
	       write_text(DEBUG "/fail_page_alloc/min-order", "0"), "fault injection");
	write_text(DEBUG "/failslab/verbose", "0");
	write_text(DEBUG "/fail_page_alloc/verbose", "0");
	return true;
}

/* Whether the nth allocation of a snapshot was reached, and so failed. */
static bool fail_nth(int file, int nth, const char *source, size_t bytes, char **taken)
{
	char text[16] = "";
	int length = snprintf(text, sizeof(text), "%d", nth);
	long left;

	EXPECT(pwrite(file, text, length, 0) == length, "fail-nth");
	*taken = vm_snapshot(source, bytes);
	memset(text, 0, sizeof(text));
	left = pread(file, text, sizeof(text) - 1, 0) > 0 ? strtol(text, NULL, 10) : -1;
	EXPECT(left >= 0, "fail-nth");
	EXPECT(pwrite(file, "0", 1, 0) == 1, "fail-nth");
	return left == 0;
}

/* A failure leaves nothing behind, and the source as it was. */
static void each_fails(char *source, size_t bytes, uint64_t mark, const char *kind)
{
	int file = open("/proc/self/fail-nth", O_RDWR), failed = 0, nth;
	const char *before = NULL;
	char *taken;

	EXPECT(file >= 0, "fail-nth");
	for (nth = 1; nth < CALLS_MAX; nth++) {
		long resident = status("RssAnon"), swap = status("VmSwap"), data = status("VmData");
		bool reached;

		before = maps();
		reached = fail_nth(file, nth, source, bytes, &taken);
		if (taken == MAP_FAILED) {
			const char *after = maps();

			EXPECT(reached && errno == ENOMEM, "%s, allocation %d", kind, nth);
			EXPECT(strcmp(before, after) == 0, "%s, allocation %d", kind, nth);
			EXPECT(status("RssAnon") <= resident + 64 && status("VmSwap") <= swap &&
			       status("VmData") == data, "%s, allocation %d: memory stays", kind, nth);
			failed++;
		} else {
			expect_pattern(taken, bytes, mark, kind);
			release(taken, bytes);
		}
		expect_pattern(source, bytes, mark, kind);
		if (!reached)
			break;
	}
	EXPECT(nth < CALLS_MAX, "%s: always one more allocation", kind);
	EXPECT(failed > 0, "%s: nothing failed", kind);
	printf("# %s: %d allocations, %d of them needed\n", kind, nth - 1, failed);
	close(file);

	taken = snapshot(source, bytes);
	fill(source, bytes, mark + 5000);
	expect_pattern(taken, bytes, mark, kind);
	release(taken, bytes);
	fill(source, bytes, mark);
}

static void small(void)
{
	size_t bytes = 5 * HUGE;
	char *source;

	if (!failures_possible())
		return;
	source = small_pages(bytes);
	fill(source, bytes, 1);
	each_fails(source, bytes, 1, "small pages");
	for (size_t at = 0; at < bytes; at += HUGE)
		EXPECT(mprotect(source + at, 4 * PAGE, PROT_READ) == 0, "mprotect");
	each_fails(source + 4 * PAGE, HUGE - 8 * PAGE, 5, "a part of an area");
}

static void areas(void)
{
	size_t bytes = 24 * PAGE;
	char *source;
	int file;

	if (!failures_possible())
		return;
	file = memory_file(bytes);
	source = small_pages(bytes);
	EXPECT(mmap(source + 8 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file,
		    0) != MAP_FAILED, "mmap");
	fill(source, bytes, 1);
	each_fails(source, bytes, 1, "several areas");
	release(source, bytes);
	close(file);
}

static void huge(void)
{
	char *source;

	if (!failures_possible())
		return;
	source = huge_pages(2 * HUGE);
	fill(source, 2 * HUGE, 1);
	each_fails(source, 2 * HUGE, 1, "huge pages");
}

/* A pinned page is copied within the call, which takes a page. */
static void pinned(void)
{
	size_t bytes = 6 * PAGE;
	char *source;

	if (!failures_possible())
		return;
	source = small_pages(bytes);
	fill(source, bytes, 1);
	pin_pages(source + PAGE, 3 * PAGE);
	each_fails(source, bytes, 1, "pinned pages");
	source = huge_pages(HUGE);
	fill(source, HUGE, 1);
	pin_pages(source + 8 * PAGE, 3 * PAGE);
	/* The pin counts for all pages of the huge one. */
	each_fails(source, 24 * PAGE, 1, "a pinned huge page");
}

static void swap_counts(void)
{
	size_t bytes = 8 * PAGE;
	char *source, *held[61], text[32];

	if (!failures_possible())
		return;
	/* With 62 snapshots the count of a place in swap needs memory. */
	snprintf(text, sizeof(text), "%d", getpid());
	EXPECT(write_text("/sys/fs/cgroup/test/cgroup.procs", text), "join");
	source = small_pages(bytes);
	fill(source, bytes, 1);
	for (int turn = 0; turn < 200 && place_of(source + bytes - PAGE).where != SWAPPED; turn++)
		write_text("/sys/fs/cgroup/test/memory.reclaim", "16M");
	EXPECT(place_of(source).where == SWAPPED, "nothing is in swap");
	for (int at = 0; at < 61; at++)
		held[at] = snapshot(source, bytes);
	for (int nth = 1, file = open("/proc/self/fail-nth", O_RDWR); nth < CALLS_MAX; nth++) {
		char *taken;
		bool reached = fail_nth(file, nth, source, bytes, &taken);

		EXPECT(taken != MAP_FAILED || (reached && errno == ENOMEM), "allocation %d", nth);
		if (taken != MAP_FAILED)
			release(taken, bytes);
		if (!reached)
			break;
	}
	expect_pattern(source, bytes, 1, "the source");
	for (int at = 0; at < 61; at++)
		expect_pattern(held[at], bytes, 1, "a snapshot");
}

static void killed(void)
{
	size_t bytes = 32 * MIB;
	char *source = small_pages(bytes);

	fill(source, bytes, 1);
	for (int round = 0; round < 10; round++) {
		pid_t child = fork();
		int state;

		EXPECT(child >= 0, "fork");
		if (child == 0)
			for (;;)
				release(vm_snapshot(source, bytes), bytes);
		usleep(1000 + round * 3000);
		EXPECT(kill(child, SIGKILL) == 0 && waitpid(child, &state, 0) == child, "kill");
		EXPECT(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL, "state %d", state);
	}
	expect_pattern(source, bytes, 1, "the source");
}

const struct test failure_tests[] = {
	{ "allocations fail: small pages", small },
	{ "allocations fail: several areas", areas },
	{ "allocations fail: huge pages", huge },
	{ "allocations fail: pages copied at once", pinned },
	{ "allocations fail: counts of swap", swap_counts },
	{ "killed within the call", killed },
	{ NULL, NULL },
};
