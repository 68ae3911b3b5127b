// SPDX-License-Identifier: GPL-2.0-only
/* What a snapshot holds, for each kind of range that may be snapshotted. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <sys/shm.h>

/* Writes every other page on one side, and the rest on the other; neither sees the other's. */
static void write_both_sides(char *source, char *taken, size_t bytes, uint64_t mark)
{
	for (size_t at = 0; at < bytes; at += PAGE)
		set_page((at / PAGE % 2 ? source : taken) + at, mark + 1000000 + at / PAGE);
	for (size_t at = 0; at < bytes; at += PAGE) {
		uint64_t old = mark + at / PAGE, new = old + 1000000;
		bool by_source = at / PAGE % 2;

		EXPECT(page_value(source + at) == (by_source ? new : old), "page %zu of the source",
		       at / PAGE);
		EXPECT(page_value(taken + at) == (by_source ? old : new), "page %zu of the snapshot",
		       at / PAGE);
	}
	expect_apart(source, taken, bytes);
}

static void both_ways(void)
{
	size_t bytes = 4 * MIB;
	char *source = small_pages(bytes), *taken;

	fill(source, bytes, 7);
	taken = snapshot(source, bytes);
	expect_shared(source, taken, bytes);
	expect_pattern(taken, bytes, 7, "the snapshot");
	write_both_sides(source, taken, bytes, 7);
	release(source, bytes);
	release(taken, bytes);
}

static void untouched(void)
{
	size_t bytes = 64 * PAGE;
	char *source = small_pages(bytes), *taken = snapshot(source, bytes), *read_before;

	set_page(source, 1);
	EXPECT(page_value(taken) == 0, "a page that came later is in the snapshot");
	set_page(taken + PAGE, 2);
	EXPECT(page_value(source + PAGE) == 0, "a page of the snapshot is in the source");

	/* Pages that were only read are the page of zeros. */
	read_before = small_pages(bytes);
	set_page(read_before, 3);
	for (size_t at = PAGE; at < bytes; at += PAGE)
		EXPECT(page_value(read_before + at) == 0, "zeros");
	taken = snapshot(read_before, bytes);
	set_page(read_before + PAGE, 4);
	set_page(taken + 2 * PAGE, 5);
	EXPECT(page_value(taken) == 3 && page_value(taken + PAGE) == 0, "the snapshot");
	EXPECT(page_value(read_before + 2 * PAGE) == 0, "the source");
}

/* Ranges of every length and offset near the bounds of a page table, and both in one. */
static void inside_one_table(void)
{
	size_t bytes = 2 * HUGE;
	char *source = huge_pages(bytes);

	madvise(source, bytes, MADV_NOHUGEPAGE);
	fill(source, bytes, 100);
	for (size_t start = HUGE - 3 * PAGE; start < HUGE + 3 * PAGE; start += PAGE)
		for (size_t length = PAGE; length <= 5 * PAGE; length += PAGE) {
			char *taken = snapshot(source + start, length);

			expect_shared(source + start, taken, length);
			expect_pattern(taken, length, 100 + start / PAGE, "the part");
			write_both_sides(source + start, taken, length, 100 + start / PAGE);
			fill(source, bytes, 100);
			release(taken, length);
		}
}

static void several_areas(void)
{
	size_t part = 8 * PAGE, bytes = 3 * part;
	char *source = small_pages(bytes), *taken;
	char *pages = source + 2 * PAGE;

	fill(source, bytes, 50);
	EXPECT(mprotect(source + part, part, PROT_READ) == 0, "mprotect");
	taken = snapshot(pages, bytes - 4 * PAGE);
	expect_shared(pages, taken, bytes - 4 * PAGE);
	expect_pattern(taken, bytes - 4 * PAGE, 52, "the snapshot");
	EXPECT(area_figure(taken + part, "Size") == (long)part / 1024, "the middle area");

	/* The protection came along, on both sides. */
	EXPECT(read(open("/dev/zero", O_RDONLY), taken + part, 8) == -1 && errno == EFAULT,
	       "the middle can be written");
	EXPECT(mprotect(taken + part - 2 * PAGE, part, PROT_READ | PROT_WRITE) == 0, "mprotect");
	fill(taken, bytes - 4 * PAGE, 900);
	expect_pattern(source, bytes, 50, "the source");
}

static void chains(void)
{
	enum { LINKS = 8 };
	size_t bytes = 16 * PAGE;
	char *links[LINKS + 1];
	uint64_t seed = 3;

	for (int round = 0; round < 20; round++) {
		bool linked[LINKS + 1];

		links[0] = small_pages(bytes);
		fill(links[0], bytes, 0);
		for (int link = 1; link <= LINKS; link++) {
			/* Of the base, or of the snapshot before. */
			links[link] = snapshot(links[round % 2 ? 0 : link - 1], bytes);
			fill(links[round % 2 ? 0 : link], bytes, link * 100);
		}
		for (int link = 0; link <= LINKS; link++)
			linked[link] = true;
		for (int left = LINKS + 1; left; left--) {
			int gone = next_number(&seed) % (LINKS + 1);

			while (!linked[gone])
				gone = (gone + 1) % (LINKS + 1);
			release(links[gone], bytes);
			linked[gone] = false;
			for (int link = 0; link <= LINKS; link++) {
				uint64_t mark = link * 100;

				if (round % 2)
					mark = link ? (link - 1) * 100 : LINKS * 100;
				if (linked[link])
					expect_pattern(links[link], bytes, mark, "a link");
			}
		}
	}
}

static void deep_chain(void)
{
	enum { DEPTH = 200 };
	char *links[DEPTH + 1];

	links[0] = small_pages(PAGE);
	set_page(links[0], 0);
	for (int link = 1; link <= DEPTH; link++) {
		links[link] = snapshot(links[link - 1], PAGE);
		set_page(links[link], link);
	}
	for (int link = 0; link <= DEPTH; link++)
		EXPECT(page_value(links[link]) == (uint64_t)link, "link %d", link);
}

static void overlapping_sources(void)
{
	size_t bytes = 32 * PAGE;
	char *source = small_pages(bytes), *first, *second, *third;

	fill(source, bytes, 10);
	first = snapshot(source, 20 * PAGE);
	set_page(source + 15 * PAGE, 999);
	second = snapshot(source + 12 * PAGE, 20 * PAGE);
	third = snapshot(source, bytes);
	expect_pattern(first, 20 * PAGE, 10, "the first");
	EXPECT(page_value(second + 3 * PAGE) == 999 && page_value(third + 15 * PAGE) == 999, "later");
	fill(source, bytes, 5000);
	expect_pattern(first, 20 * PAGE, 10, "the first");
	expect_pattern(second + 4 * PAGE, 16 * PAGE, 26, "the second");
	expect_pattern(third + 16 * PAGE, 16 * PAGE, 26, "the third");
}

static void shared_memory(void)
{
	size_t bytes = 16 * PAGE;
	int file = memory_file(bytes), segment;
	char *source = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), *taken;
	struct shmid_ds attached;

	fill(source, bytes, 1);
	taken = snapshot(source + PAGE, bytes - PAGE);
	fill(source, bytes, 77);
	expect_pattern(taken, bytes - PAGE, 78, "shared memory");
	set_page(taken, 5);
	EXPECT(page_value(source + PAGE) == 5, "shared memory stays shared");

	segment = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
	source = shmat(segment, NULL, 0);
	EXPECT(source != (char *)-1, "shmat");
	taken = snapshot(source, bytes);
	EXPECT(shmctl(segment, IPC_STAT, &attached) == 0 && attached.shm_nattch == 2, "%lu attached",
	       (unsigned long)attached.shm_nattch);
	EXPECT(shmdt(taken) == 0 && shmctl(segment, IPC_STAT, &attached) == 0 &&
	       attached.shm_nattch == 1, "detached");
	shmctl(segment, IPC_RMID, NULL);
}

static void private_file(void)
{
	size_t bytes = 16 * PAGE;
	int file = memory_file(bytes);
	char *whole = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	char *source = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0), *taken;

	fill(whole, bytes, 200);
	for (size_t at = 0; at < bytes; at += 2 * PAGE)
		set_page(source + at, 1);
	EXPECT(page_value(source + PAGE) == 201, "the file's page");
	taken = snapshot(source + PAGE, bytes - PAGE);
	close(file);
	set_page(source + 2 * PAGE, 2);
	set_page(source + PAGE, 3);
	EXPECT(page_value(taken + PAGE) == 1, "a private page");
	EXPECT(page_value(taken) == 201, "a page of the file");
	set_page(taken + 2 * PAGE, 4);
	EXPECT(page_value(whole + 3 * PAGE) == 203 && page_value(source + 3 * PAGE) == 203, "the file");
}

struct family {
	char *source, *taken;
	size_t bytes;
};

static void child_of_both(void *with)
{
	struct family *of = with;
	char *own;

	expect_pattern(of->taken, of->bytes, 1, "the snapshot, in a child");
	own = snapshot(of->taken, of->bytes);
	fill(of->taken, of->bytes, 500);
	expect_pattern(own, of->bytes, 1, "the child's own");
	fill(of->source, of->bytes, 600);
	expect_pattern(of->taken, of->bytes, 500, "the snapshot, in a child");
}

static void fork_afterwards(void)
{
	size_t bytes = 64 * PAGE;
	struct family of = { small_pages(bytes), NULL, bytes };

	fill(of.source, bytes, 1);
	of.taken = snapshot(of.source, bytes);
	fill(of.source, bytes / 2, 2);
	EXPECT(in_child(child_of_both, &of) == 0, "in a child");
	expect_pattern(of.taken, bytes, 1, "the snapshot, after a child");
	expect_pattern(of.source, bytes / 2, 2, "the source, after a child");
	write_both_sides(of.source + bytes / 2, of.taken + bytes / 2, bytes / 2, 1 + bytes / 2 / PAGE);
}

static void moved_and_split(void)
{
	size_t bytes = 32 * PAGE;
	char *source = small_pages(bytes), *taken, *moved;

	fill(source, bytes, 10);
	taken = snapshot(source, bytes);
	moved = mremap(taken, bytes, 2 * bytes, MREMAP_MAYMOVE);
	EXPECT(moved != MAP_FAILED, "mremap");
	expect_pattern(moved, bytes, 10, "the moved one");
	release(moved + 8 * PAGE, 8 * PAGE);
	fill(source, bytes, 90);
	expect_pattern(moved, 8 * PAGE, 10, "its first part");
	expect_pattern(moved + 16 * PAGE, 16 * PAGE, 26, "its second part");
	taken = snapshot(moved + 16 * PAGE, 16 * PAGE);
	source = mremap(source, bytes, 4 * bytes, MREMAP_MAYMOVE);
	EXPECT(source != MAP_FAILED, "mremap");
	release(moved, 8 * PAGE);
	release(moved + 16 * PAGE, 16 * PAGE + bytes);
	expect_pattern(taken, 16 * PAGE, 26, "the last one");
	expect_pattern(source, bytes, 90, "the moved source");
}

static void locked_memory(void)
{
	size_t bytes = 64 * PAGE;
	char *source = small_pages(bytes), *taken;

	fill(source, bytes, 10);
	EXPECT(mlock(source, bytes) == 0, "mlock");
	taken = snapshot(source, bytes);
	EXPECT(status("VmLck") == (long)bytes / 1024, "locked: %ld KiB", status("VmLck"));
	EXPECT(area_figure(taken, "Locked") == 0, "the snapshot is locked");
	write_both_sides(source, taken, bytes, 10);
	EXPECT(mlock(taken, bytes) == 0 && munlock(source, bytes) == 0, "mlock");
	release(source, bytes);
	release(taken, bytes);
	EXPECT(status("VmLck") == 0, "locked: %ld KiB", status("VmLck"));
}

static void figures(void)
{
	size_t bytes = 8 * MIB;
	char *source = small_pages(bytes), *taken;
	long data = status("VmData"), resident = status("RssAnon");

	fill(source, bytes, 1);
	taken = snapshot(source, bytes);
	EXPECT(status("VmData") - data == (long)bytes / 1024, "VmData");
	/* The kernel counts in steps of 64 pages for each thread. */
	EXPECT(status("RssAnon") - resident >= 2 * (long)bytes / 1024 - 512, "RssAnon counts both");
	EXPECT(area_figure(source, "Pss") == (long)bytes / 2048, "Pss %ld", area_figure(source, "Pss"));
	EXPECT(area_figure(taken, "Pss") == (long)bytes / 2048, "Pss %ld", area_figure(taken, "Pss"));
	release(taken, bytes);
	EXPECT(status("VmData") == data, "VmData");
	EXPECT(area_figure(source, "Pss") == (long)bytes / 1024, "Pss %ld", area_figure(source, "Pss"));
}

/* Page tables are missing at every level in between. */
static void sparse(void)
{
	size_t bytes = 600ul << 30, step = 37ul << 30;
	char *source = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), *taken;

	EXPECT(source != MAP_FAILED, "mmap");
	madvise(source, bytes, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < bytes; at += step)
		set_page(source + at, at);
	set_page(source + bytes - PAGE, 5);
	taken = snapshot(source, bytes);
	for (size_t at = 0; at < bytes; at += step) {
		EXPECT(page_value(taken + at) == at, "at %zu", at);
		expect_shared(source + at, taken + at, PAGE);
		set_page(source + at, 1);
		EXPECT(page_value(taken + at) == at, "at %zu", at);
	}
	EXPECT(page_value(taken + bytes - PAGE) == 5, "the end");
	EXPECT(status("VmPTE") < 1024, "page tables of %ld KiB", status("VmPTE"));
}

static void large(void)
{
	size_t bytes = 96 * MIB;
	char *source = small_pages(bytes), *taken, *again;

	fill(source, bytes, 1);
	taken = snapshot(source, bytes);
	expect_shared(source, taken, bytes);
	fill(source, bytes / 4, 7);
	again = snapshot(source, bytes);
	expect_pattern(taken, bytes, 1, "the first");
	expect_pattern(again, bytes / 4, 7, "the second");
	release(taken, bytes);
	release(source, bytes);
	expect_pattern(again + bytes / 4, bytes / 4 * 3, 1 + bytes / 4 / PAGE, "the second");
}

const struct test range_tests[] = {
	{ "writes stay apart, both ways", both_ways },
	{ "untouched pages", untouched },
	{ "parts of one page table", inside_one_table },
	{ "several areas, with their protection", several_areas },
	{ "chains, gone in any order", chains },
	{ "a deep chain", deep_chain },
	{ "overlapping sources", overlapping_sources },
	{ "shared memory stays shared", shared_memory },
	{ "private pages of a file", private_file },
	{ "fork afterwards", fork_afterwards },
	{ "mremap and munmap of parts", moved_and_split },
	{ "locked memory", locked_memory },
	{ "figures of /proc", figures },
	{ "a sparse area of 600 GiB", sparse },
	{ "a large area", large },
	{ NULL, NULL },
};
