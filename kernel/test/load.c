// SPDX-License-Identifier: GPL-2.0-only
/* Snapshots while others write, fork and move pages, and random steps beside a simple model. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

static uint64_t first_seed(void)
{
	const char *given = getenv("SEED");

	return given ? strtoull(given, NULL, 10) : 1;
}

enum { PAGES = 256 };

struct writer {
	char *column;
	atomic_bool over;
	atomic_ulong rounds;
	unsigned step;
};

/* Writes round r to page 0, 1, 2 and so on, then round r + 1. */
static void *write_in_order(void *with)
{
	struct writer *writer = with;

	for (uint64_t round = 1; !atomic_load(&writer->over); round++) {
		for (size_t page = 0; page < PAGES; page++)
			*(volatile uint64_t *)(writer->column + page * PAGE) = round;
		atomic_store(&writer->rounds, round);
	}
	return NULL;
}

static void *move_pages_about(void *with)
{
	struct writer *writer = with;

	for (int turn = 1; !atomic_load(&writer->over); turn++) {
		write_text("/sys/fs/cgroup/test/memory.reclaim", "256K");
		if (turn % 16 == 0)
			write_text("/proc/sys/vm/compact_memory", "1");
	}
	return NULL;
}

static uint64_t value_at(const char *column, size_t page)
{
	return *(volatile const uint64_t *)(column + page * PAGE);
}

/* A snapshot holds what one writer had written at one moment, and keeps it. */
static void writer_beside(void)
{
	enum { LIVE = 8, SNAPSHOTS = 100 };
	struct writer writer = { .column = small_pages(PAGES * PAGE) };
	char *taken[LIVE] = { NULL };
	uint64_t sums[LIVE];
	pthread_t write, move;
	char text[32];

	snprintf(text, sizeof(text), "%d", getpid());
	EXPECT(write_text("/sys/fs/cgroup/test/cgroup.procs", text), "join");
	EXPECT(pthread_create(&write, NULL, write_in_order, &writer) == 0 &&
	       pthread_create(&move, NULL, move_pages_about, &writer) == 0, "threads");
	while (atomic_load(&writer.rounds) == 0)
		sched_yield();
	for (int count = 0; count < SNAPSHOTS; count++) {
		int slot = count % LIVE;
		uint64_t sum = 0, first;

		if (taken[slot]) {
			for (size_t page = 0; page < PAGES; page++)
				sum += value_at(taken[slot], page);
			EXPECT(sum == sums[slot], "snapshot %d changed", count - LIVE);
			release(taken[slot], PAGES * PAGE);
		}
		taken[slot] = snapshot(writer.column, PAGES * PAGE);
		first = value_at(taken[slot], 0);
		sums[slot] = 0;
		for (size_t page = 0; page < PAGES; page++) {
			uint64_t value = value_at(taken[slot], page);

			EXPECT(value == first || value == first - 1, "snapshot %d, page %zu", count, page);
			EXPECT(page == 0 || value <= value_at(taken[slot], page - 1),
			       "snapshot %d has page %zu without the one before", count, page);
			sums[slot] += value;
		}
	}
	atomic_store(&writer.over, true);
	pthread_join(write, NULL);
	pthread_join(move, NULL);
	printf("# %lu rounds beside %d snapshots\n", atomic_load(&writer.rounds), SNAPSHOTS);
}

static char *common;

static void *snapshots_of_common(void *with)
{
	uint64_t seed = (uintptr_t)with;

	for (int round = 0; round < 50; round++) {
		size_t from = next_number(&seed) % (PAGES - 1);
		size_t pages = 1 + next_number(&seed) % (PAGES - from);
		char *taken = snapshot(common + from * PAGE, pages * PAGE);

		expect_pattern(taken, pages * PAGE, from, "the common one");
		fill(taken, pages * PAGE, 12345);
		release(taken, pages * PAGE);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t all[4];

	common = small_pages(PAGES * PAGE);
	fill(common, PAGES * PAGE, 0);
	for (uintptr_t at = 0; at < 4; at++)
		EXPECT(pthread_create(&all[at], NULL, snapshots_of_common, (void *)(at + 1)) == 0, "thread");
	for (int at = 0; at < 4; at++)
		pthread_join(all[at], NULL);
	expect_pattern(common, PAGES * PAGE, 0, "the common one");
}

/* The model: what each page of each range must hold. */
enum { RANGES = 12, LENGTH = 800 };
static struct range {
	char *start;
	size_t pages;
	uint64_t values[LENGTH];
} ranges[RANGES];

static void expect_model(const char *when)
{
	for (int at = 0; at < RANGES; at++)
		for (size_t page = 0; page < ranges[at].pages; page++)
			EXPECT(page_value(ranges[at].start + page * PAGE) == ranges[at].values[page],
			       "range %d, page %zu, %s: %llu, want %llu", at, page, when,
			       (unsigned long long)page_value(ranges[at].start + page * PAGE),
			       (unsigned long long)ranges[at].values[page]);
}

static void model_in_child(void *with)
{
	expect_model("in a child");
	for (int at = 0; at < RANGES; at++)
		fill(ranges[at].start, ranges[at].pages * PAGE, (uintptr_t)with);
}

static void new_range(struct range *range, uint64_t *seed)
{
	size_t room = 2 * HUGE;

	range->pages = 1 + next_number(seed) % LENGTH;
	range->start = next_number(seed) % 2 ? huge_pages(room) : small_pages(room);
	if (range->pages * PAGE < room)
		release(range->start + range->pages * PAGE, room - range->pages * PAGE);
	memset(range->values, 0, sizeof(range->values));
}

static void random_step(uint64_t *seed)
{
	struct range *one = &ranges[next_number(seed) % RANGES];
	struct range *other = &ranges[next_number(seed) % RANGES];
	unsigned kind = next_number(seed) % 100;

	if (one->pages == 0) {
		new_range(one, seed);
	} else if (kind < 50) {
		for (int writes = next_number(seed) % 40; writes >= 0; writes--) {
			size_t page = next_number(seed) % one->pages;

			one->values[page] = next_number(seed);
			set_page(one->start + page * PAGE, one->values[page]);
		}
	} else if (kind < 85 && one != other) {
		size_t from = next_number(seed) % one->pages;

		release(other->start, other->pages * PAGE);
		other->pages = 1 + next_number(seed) % (one->pages - from);
		memcpy(other->values, one->values + from, other->pages * 8);
		other->start = snapshot(one->start + from * PAGE, other->pages * PAGE);
	} else if (kind < 90) {
		release(one->start, one->pages * PAGE);
		one->pages = 0;
	} else if (kind < 93) {
		one->start = mremap(one->start, one->pages * PAGE, one->pages * PAGE, MREMAP_MAYMOVE);
		EXPECT(one->start != MAP_FAILED, "mremap");
	} else if (kind < 96) {
		write_text("/sys/fs/cgroup/test/memory.reclaim", "4M");
	} else if (kind < 98) {
		write_text("/proc/sys/vm/compact_memory", "1");
	} else {
		EXPECT(in_child(model_in_child, (void *)(uintptr_t)next_number(seed)) == 0, "in a child");
	}
}

static void beside_a_model(void)
{
	uint64_t first = first_seed();
	char text[32];

	snprintf(text, sizeof(text), "%d", getpid());
	EXPECT(write_text("/sys/fs/cgroup/test/cgroup.procs", text), "join");
	for (uint64_t round = first; round < first + 2; round++) {
		uint64_t seed = round;

		printf("# seed %llu\n", (unsigned long long)round);
		for (int step = 0; step < 300; step++) {
			random_step(&seed);
			if (step % 10 == 0)
				expect_model("now and then");
		}
		expect_model("in the end");
	}
}

const struct test load_tests[] = {
	{ "one writer, and pages that move", writer_beside },
	{ "several threads", threads },
	{ "random steps beside a model", beside_a_model },
	{ NULL, NULL },
};
