// SPDX-License-Identifier: GPL-2.0-only
/* Pages that the kernel treats otherwise: pinned, huge, merged. */
#define _GNU_SOURCE
#include "check.h"

#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

/* A ring whose one buffer is pinned, as the memory of a device would be. */
struct ring {
	int file;
	unsigned *tail, *mask, *array;
	struct io_uring_sqe *entries;
	char *buffer;
};

static struct ring pin(char *buffer, size_t bytes)
{
	struct io_uring_params params = { 0 };
	struct ring ring = { .buffer = buffer };
	struct iovec pages = { buffer, bytes };
	char *queue;

	ring.file = syscall(SYS_io_uring_setup, 4, &params);
	EXPECT(ring.file >= 0, "io_uring");
	queue = mmap(NULL, params.sq_off.array + 4 * params.sq_entries, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_POPULATE, ring.file, IORING_OFF_SQ_RING);
	ring.entries = mmap(NULL, params.sq_entries * sizeof(*ring.entries), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_POPULATE, ring.file, IORING_OFF_SQES);
	EXPECT(queue != MAP_FAILED && ring.entries != MAP_FAILED, "io_uring");
	ring.tail = (unsigned *)(queue + params.sq_off.tail);
	ring.mask = (unsigned *)(queue + params.sq_off.ring_mask);
	ring.array = (unsigned *)(queue + params.sq_off.array);
	EXPECT(syscall(SYS_io_uring_register, ring.file, IORING_REGISTER_BUFFERS, &pages, 1) == 0,
	       "pin %zu bytes", bytes);
	return ring;
}

int pin_pages(char *start, size_t bytes)
{
	return pin(start, bytes).file;
}

/* Reads a page of a file into the pinned page, past the page tables of this process. */
static void read_pinned(struct ring *ring, size_t at, uint64_t value)
{
	int file = memory_file(PAGE);
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	unsigned slot = *ring->tail & *ring->mask;

	set_page(page, value);
	memset(&ring->entries[slot], 0, sizeof(*ring->entries));
	ring->entries[slot].opcode = IORING_OP_READ_FIXED;
	ring->entries[slot].fd = file;
	ring->entries[slot].addr = (uintptr_t)(ring->buffer + at);
	ring->entries[slot].len = PAGE;
	ring->array[slot] = slot;
	__atomic_store_n(ring->tail, *ring->tail + 1, __ATOMIC_RELEASE);
	EXPECT(syscall(SYS_io_uring_enter, ring->file, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
	       "read");
	release(page, PAGE);
	close(file);
}

/* A pinned page stays in the source, and the snapshot has a copy from the first moment. */
static void pinned(char *source, size_t bytes, size_t from, size_t to)
{
	struct ring ring;
	char *taken, *again;

	fill(source, bytes, 10);
	ring = pin(source + from, to - from);
	taken = snapshot(source, bytes);
	expect_pattern(taken, bytes, 10, "the snapshot");
	expect_apart(source + from, taken + from, to - from);
	set_page(source + from, 500);
	read_pinned(&ring, PAGE, 501);
	read_pinned(&ring, to - from - PAGE, 502);
	EXPECT(page_value(source + from) == 500 && page_value(source + from + PAGE) == 501 &&
	       page_value(source + to - PAGE) == 502, "the device writes to the source");
	expect_pattern(taken, bytes, 10, "the snapshot");
	fill(taken, bytes, 70);
	read_pinned(&ring, 2 * PAGE, 503);
	EXPECT(page_value(source + from + 2 * PAGE) == 503, "the device writes to the source");
	again = snapshot(source, bytes);
	EXPECT(page_value(again + from + 2 * PAGE) == 503, "a later snapshot");
	close(ring.file);
	fill(source, bytes, 90);
	expect_pattern(taken, bytes, 70, "the snapshot");
}

static void pinned_pages(void)
{
	char *source = small_pages(64 * PAGE);

	pinned(source, 64 * PAGE, 20 * PAGE, 40 * PAGE);
	source = small_pages(64 * PAGE);
	pinned(source, 64 * PAGE, 0, 64 * PAGE);
}

static void pinned_huge_page(void)
{
	char *source = huge_pages(2 * HUGE);

	fill(source, HUGE, 1);
	EXPECT(area_figure(source, "AnonHugePages") == (long)HUGE / 1024, "not huge");
	pinned(source, 2 * HUGE, 20 * PAGE, 40 * PAGE);
}

/* Pinned while it was shared by a snapshot: the pin takes a page of its own first. */
static void pinned_afterwards(void)
{
	size_t bytes = 16 * PAGE;
	char *source = small_pages(bytes), *taken;
	struct ring of_source, of_taken;

	fill(source, bytes, 10);
	taken = snapshot(source, bytes);
	of_source = pin(source, bytes);
	of_taken = pin(taken, bytes);
	read_pinned(&of_source, 0, 800);
	read_pinned(&of_taken, PAGE, 900);
	EXPECT(page_value(source) == 800 && page_value(taken) == 10, "the source is pinned");
	EXPECT(page_value(source + PAGE) == 11 && page_value(taken + PAGE) == 900, "the snapshot is");
	close(of_source.file);
	close(of_taken.file);
}

static void huge_pages_shared(void)
{
	size_t bytes = 4 * HUGE;
	char *source = huge_pages(bytes), *taken, *again;

	fill(source, bytes, 1);
	EXPECT(area_figure(source, "AnonHugePages") == (long)bytes / 1024, "not huge");
	taken = snapshot(source, bytes);
	expect_shared(source, taken, bytes);
	EXPECT(area_figure(source, "AnonHugePages") == (long)bytes / 1024, "the source was split");
	EXPECT(area_figure(taken, "AnonHugePages") == (long)bytes / 1024, "the snapshot is small");
	again = snapshot(taken + HUGE, 2 * HUGE);
	set_page(source + 5 * PAGE, 777);
	set_page(taken + HUGE + 5 * PAGE, 778);
	set_page(again + 6 * PAGE, 779);
	EXPECT(page_value(taken + 5 * PAGE) == 6, "the snapshot");
	EXPECT(page_value(source + HUGE + 5 * PAGE) == 6 + HUGE / PAGE, "the source");
	expect_pattern(again, 6 * PAGE, 1 + HUGE / PAGE, "the second");
	release(source, bytes);
	expect_pattern(taken, HUGE, 1, "the snapshot");
	fill(taken, bytes, 40);
	expect_pattern(again + 7 * PAGE, 2 * HUGE - 7 * PAGE, 8 + HUGE / PAGE, "the second");
}

static void huge_pages_in_part(void)
{
	size_t bytes = 4 * HUGE, from = HUGE - 3 * PAGE, length = 2 * HUGE;
	char *source = huge_pages(bytes), *taken, *small;

	fill(source, bytes, 1);
	taken = snapshot(source + from, length);
	expect_shared(source + from, taken, length);
	expect_pattern(taken, length, 1 + from / PAGE, "the part");
	small = snapshot(source + 3 * HUGE + 5 * PAGE, 3 * PAGE);
	fill(source, bytes, 90);
	expect_pattern(taken, length, 1 + from / PAGE, "the part");
	expect_pattern(small, 3 * PAGE, 6 + 3 * HUGE / PAGE, "the small part");

	/* The huge page of zeros. */
	source = huge_pages(2 * HUGE);
	EXPECT(page_value(source) == 0 && page_value(source + HUGE) == 0, "zeros");
	set_page(source + HUGE, 1);
	taken = snapshot(source, 2 * HUGE);
	set_page(taken, 2);
	EXPECT(page_value(source) == 0 && page_value(taken + HUGE) == 1, "zeros");
}

static void wait_until_merged(long pages)
{
	for (int turn = 0; turn < 3000; turn++) {
		if (read_figure("/sys/kernel/mm/ksm/pages_sharing") >= pages)
			return;
		usleep(10000);
	}
	EXPECT(false, "only %ld pages are merged", read_figure("/sys/kernel/mm/ksm/pages_sharing"));
}

static char *merged(size_t bytes)
{
	char *start = small_pages(bytes);

	for (size_t at = 0; at < bytes; at += PAGE)
		set_page(start + at, 4711);
	EXPECT(madvise(start, bytes, MADV_MERGEABLE) == 0, "mergeable");
	EXPECT(write_text("/sys/kernel/mm/ksm/sleep_millisecs", "5") &&
	       write_text("/sys/kernel/mm/ksm/pages_to_scan", "1000") &&
	       write_text("/sys/kernel/mm/ksm/run", "1"), "ksm");
	wait_until_merged(bytes / PAGE - 1);
	return start;
}

static void merged_pages(void)
{
	size_t bytes = 64 * PAGE;
	char *source = merged(bytes), *taken, *again;

	write_text("/sys/kernel/mm/ksm/run", "0");
	expect_shared(source, source + PAGE, PAGE);
	taken = snapshot(source, bytes);
	expect_shared(source, source + PAGE, PAGE);
	expect_apart(source, taken, bytes);
	again = snapshot(taken, bytes);
	set_page(source, 1);
	set_page(taken + PAGE, 2);
	set_page(again + 2 * PAGE, 3);
	for (size_t at = 0; at < bytes; at += PAGE) {
		EXPECT(page_value(source + at) == (at == 0 ? 1 : 4711), "the source");
		EXPECT(page_value(taken + at) == (at == PAGE ? 2 : 4711), "the snapshot");
		EXPECT(page_value(again + at) == (at == 2 * PAGE ? 3 : 4711), "the second");
	}
	write_text("/sys/kernel/mm/ksm/run", "2");
	fill(source, bytes, 50);
	fill(again, bytes, 60);
	EXPECT(page_value(taken) == 4711 && page_value(taken + PAGE) == 2, "the snapshot");
}

static atomic_bool over;

static void *compact(void *unused)
{
	while (!atomic_load(&over))
		write_text("/proc/sys/vm/compact_memory", "1");
	return unused;
}

/* Other memory comes and goes, so that there are gaps to move pages to. */
static void leave_gaps(void)
{
	char *memory = small_pages(8 * MIB);

	for (size_t at = 0; at < 8 * MIB; at += 2 * PAGE)
		set_page(memory + at, 1);
	release(memory, 8 * MIB);
}

/* Merged pages move while they are snapshotted. */
static void merged_and_moved(void)
{
	enum { LIVE = 6, SECONDS = 15 };
	size_t bytes = 256 * PAGE;
	char *source = merged(bytes), *taken[LIVE] = { NULL };
	time_t end = time(NULL) + SECONDS;
	pthread_t mover;
	int round;

	EXPECT(pthread_create(&mover, NULL, compact, NULL) == 0, "thread");
	for (round = 0; time(NULL) < end; round++) {
		int slot = round % LIVE;

		if (taken[slot]) {
			for (size_t at = 0; at < bytes; at += PAGE)
				EXPECT(page_value(taken[slot] + at) == 4711, "round %d", round);
			release(taken[slot], bytes);
		}
		taken[slot] = snapshot(round % 3 || !taken[(round + 1) % LIVE] ? source :
				       taken[(round + 1) % LIVE], bytes);
		if (round % 20 == 0)
			leave_gaps();
	}
	atomic_store(&over, true);
	pthread_join(mover, NULL);
	write_text("/sys/kernel/mm/ksm/run", "2");
	printf("# %d rounds\n", round);
}

const struct test page_tests[] = {
	{ "pinned pages", pinned_pages },
	{ "a pinned huge page", pinned_huge_page },
	{ "pages pinned afterwards", pinned_afterwards },
	{ "huge pages are shared as such", huge_pages_shared },
	{ "parts of huge pages", huge_pages_in_part },
	{ "merged pages (KSM)", merged_pages },
	{ "merged pages that move", merged_and_moved },
	{ NULL, NULL },
};
