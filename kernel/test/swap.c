// SPDX-License-Identifier: GPL-2.0-only
/* Pages in swap, and pages that the kernel moves there while both sides have them. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/swap.h>

#define GROUP "/sys/fs/cgroup/test"
#define DISK "/dev/ram0"

static void join_group(void)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", getpid());
	EXPECT(write_text(GROUP "/cgroup.procs", text), "join %s", GROUP);
}

static size_t swapped(const char *start, size_t bytes)
{
	size_t count = 0;

	for (size_t at = 0; at < bytes; at += PAGE)
		count += place_of(start + at).where == SWAPPED;
	return count;
}

/* The kernel finds all mappings of a page before it may move the page out. */
static void move_out(const char *start, size_t bytes)
{
	for (int turn = 0; turn < 200; turn++) {
		if (swapped(start, bytes) == bytes / PAGE)
			return;
		write_text(GROUP "/memory.reclaim", "16M");
	}
	EXPECT(false, "%zu of %zu pages are in swap", swapped(start, bytes), bytes / PAGE);
}

static void swapped_before(void)
{
	size_t bytes = 4 * MIB;
	char *source = small_pages(bytes), *taken, *again;

	join_group();
	fill(source, bytes, 10);
	move_out(source, bytes);
	taken = snapshot(source, bytes);
	expect_shared(source, taken, bytes);
	EXPECT(status("VmSwap") >= 2 * (long)bytes / 1024, "VmSwap %ld", status("VmSwap"));
	for (size_t at = 0; at < bytes; at += 2 * PAGE)
		set_page(source + at, 1);
	for (size_t at = PAGE; at < bytes; at += 2 * PAGE)
		set_page(taken + at, 2);
	again = snapshot(taken, bytes);
	for (size_t at = 0; at < bytes; at += 2 * PAGE) {
		EXPECT(page_value(taken + at) == 10 + at / PAGE, "the snapshot");
		EXPECT(page_value(source + at + PAGE) == 11 + at / PAGE, "the source");
		EXPECT(page_value(again + at + PAGE) == 2, "the second");
	}
	expect_apart(source, taken, bytes);
}

static void swapped_afterwards(void)
{
	size_t bytes = 4 * MIB;
	char *source = small_pages(bytes), *taken, *again;

	join_group();
	fill(source, bytes, 10);
	taken = snapshot(source, bytes);
	again = snapshot(taken, bytes);
	move_out(source, bytes);
	move_out(taken, bytes);
	move_out(again, bytes);
	expect_shared(source, taken, bytes);
	expect_shared(source, again, bytes);
	fill(source, bytes, 500);
	expect_pattern(taken, bytes, 10, "the snapshot");
	fill(taken, bytes, 600);
	move_out(source, bytes);
	move_out(taken, bytes);
	expect_pattern(again, bytes, 10, "the second");
	expect_pattern(source, bytes, 500, "the source");
	expect_pattern(taken, bytes, 600, "the snapshot");
}

/* The count of a place in swap overflows at 62 mappings, and goes on elsewhere. */
static void many_of_one_place(void)
{
	enum { SNAPSHOTS = 150 };
	size_t bytes = 8 * PAGE;
	char *source = small_pages(bytes), *taken[SNAPSHOTS];

	join_group();
	fill(source, bytes, 10);
	move_out(source, bytes);
	for (int at = 0; at < SNAPSHOTS; at++)
		taken[at] = snapshot(source, bytes);
	expect_shared(source, taken[SNAPSHOTS - 1], bytes);
	fill(source, bytes, 20);
	for (int at = 0; at < SNAPSHOTS; at++) {
		expect_pattern(taken[at], bytes, 10, "a snapshot");
		if (at % 3)
			release(taken[at], bytes);
	}
	EXPECT(page_value(taken[SNAPSHOTS - 3]) == 10, "a snapshot that stayed");
}

static void swap_goes_away(void)
{
	size_t bytes = 2 * MIB;
	char *source = small_pages(bytes), *taken;

	join_group();
	fill(source, bytes, 10);
	move_out(source, bytes);
	taken = snapshot(source, bytes);
	EXPECT(swapoff(DISK) == 0, "swapoff");
	EXPECT(swapped(source, bytes) == 0 && swapped(taken, bytes) == 0, "pages stay in swap");
	expect_shared(source, taken, bytes);
	fill(source, bytes, 90);
	expect_pattern(taken, bytes, 10, "the snapshot");
	EXPECT(swapon(DISK, 0) == 0, "swapon");
}

static void child(void *with)
{
	char **both = with;

	expect_pattern(both[0], 64 * PAGE, 10, "the source, in a child");
	fill(both[1], 64 * PAGE, 30);
	expect_pattern(both[0], 64 * PAGE, 10, "the source, in a child");
}

static void fork_of_swapped(void)
{
	char *both[2] = { small_pages(64 * PAGE) };

	join_group();
	fill(both[0], 64 * PAGE, 10);
	move_out(both[0], 64 * PAGE);
	both[1] = snapshot(both[0], 64 * PAGE);
	EXPECT(in_child(child, both) == 0, "in a child");
	expect_pattern(both[1], 64 * PAGE, 10, "the snapshot");
}

static void huge_pages_out(void)
{
	size_t bytes = 2 * HUGE;
	char *source = huge_pages(bytes), *taken;

	join_group();
	fill(source, bytes, 10);
	taken = snapshot(source, bytes);
	move_out(source, bytes);
	move_out(taken, bytes);
	expect_shared(source, taken, bytes);
	fill(source, bytes, 50);
	expect_pattern(taken, bytes, 10, "the snapshot");
}

const struct test swap_tests[] = {
	{ "pages swapped before", swapped_before },
	{ "pages swapped afterwards, from both sides", swapped_afterwards },
	{ "many snapshots of one place in swap", many_of_one_place },
	{ "swapoff", swap_goes_away },
	{ "fork of swapped pages", fork_of_swapped },
	{ "huge pages swapped afterwards", huge_pages_out },
	{ NULL, NULL },
};
