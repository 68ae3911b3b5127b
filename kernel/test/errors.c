// SPDX-License-Identifier: GPL-2.0-only
/* What vm_snapshot refuses, and that a refusal changes nothing. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void bad_arguments(void)
{
	char *source = small_pages(8 * PAGE);

	fill(source, 8 * PAGE, 1);
	expect_refused(source + 1, PAGE, EINVAL, "an address within a page");
	expect_refused(source + PAGE - 8, PAGE, EINVAL, "an address within a page");
	expect_refused(source, 100, EINVAL, "a part of a page");
	expect_refused(source, 2 * PAGE + 8, EINVAL, "a part of a page");
	expect_refused(source, 0, EINVAL, "no page");
	expect_refused(source, -PAGE, EFAULT, "more than there can be");
	expect_refused((char *)-(2 * PAGE), 4 * PAGE, EFAULT, "a range around the end");
	expect_refused((char *)0xffff888000000000ul, PAGE, EFAULT, "memory of the kernel");
	expect_refused((char *)0x0080000000000000ul, PAGE, EFAULT, "an address between both");
	expect_pattern(source, 8 * PAGE, 1, "the source");
}

static void holes(void)
{
	char *source = small_pages(8 * PAGE);

	fill(source, 8 * PAGE, 1);
	release(source + 3 * PAGE, PAGE);
	release(source + 7 * PAGE, PAGE);
	expect_refused(source + 3 * PAGE, PAGE, EFAULT, "a hole");
	expect_refused(source, 5 * PAGE, EFAULT, "a hole within");
	expect_refused(source + 3 * PAGE, 3 * PAGE, EFAULT, "a hole at the begin");
	expect_refused(source + 4 * PAGE, 4 * PAGE, EFAULT, "a hole at the end");
	expect_refused(NULL, PAGE, EFAULT, "page 0");
	release(snapshot(source, 3 * PAGE), 3 * PAGE);
	release(snapshot(source + 4 * PAGE, 3 * PAGE), 3 * PAGE);
}

static void areas_of_a_kind(void)
{
	char *pages, *stack = (char *)((uintptr_t)&pages / PAGE * PAGE), *huge, *watched;
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	expect_refused(stack, PAGE, EINVAL, "the stack");
	pages = small_pages(4 * PAGE);
	fill(pages, 4 * PAGE, 1);
	EXPECT(madvise(pages + 2 * PAGE, PAGE, MADV_DONTFORK) == 0, "madvise");
	expect_refused(pages, 4 * PAGE, EINVAL, "an area that is not for fork");
	EXPECT(madvise(pages + 2 * PAGE, PAGE, MADV_DOFORK) == 0, "madvise");
	release(snapshot(pages, 4 * PAGE), 4 * PAGE);

	EXPECT(write_text("/proc/sys/vm/nr_hugepages", "1"), "nr_hugepages");
	huge = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	EXPECT(huge != MAP_FAILED, "hugetlb");
	expect_refused(huge, HUGE, EINVAL, "hugetlb");
	release(huge, HUGE);
	write_text("/proc/sys/vm/nr_hugepages", "0");

	watched = small_pages(4 * PAGE);
	area.range.start = (uintptr_t)watched;
	area.range.len = 4 * PAGE;
	EXPECT(faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0 &&
	       ioctl(faults, UFFDIO_REGISTER, &area) == 0, "userfaultfd");
	expect_refused(watched, 4 * PAGE, EINVAL, "an area of userfaultfd");
	EXPECT(ioctl(faults, UFFDIO_UNREGISTER, &area.range) == 0, "userfaultfd");
	release(snapshot(watched, 4 * PAGE), 4 * PAGE);
}

static void special_areas(void)
{
	char line[256];
	unsigned long start, end;
	int tried = 0;
	FILE *file = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof(line), file))
		if ((strstr(line, "[vdso]") || strstr(line, "[vvar]")) &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2) {
			expect_refused((char *)start, end - start, EINVAL, line);
			tried++;
		}
	EXPECT(tried > 0, "no vdso");
	fclose(file);
	expect_refused((char *)0xffffffffff600000ul, PAGE, EFAULT, "vsyscall");
}

static void limit_of_address_space(void)
{
	size_t bytes = 64 * MIB;
	char *source = small_pages(bytes);
	struct rlimit old, limit;

	set_page(source, 1);
	for (int which = 0; which < 2; which++) {
		int resource = which ? RLIMIT_DATA : RLIMIT_AS;

		EXPECT(getrlimit(resource, &old) == 0, "getrlimit");
		limit = old;
		limit.rlim_cur = status(which ? "VmData" : "VmSize") * 1024 + 32 * MIB;
		EXPECT(setrlimit(resource, &limit) == 0, "setrlimit");
		expect_refused(source, bytes, ENOMEM, "a range beyond the limit");
		release(snapshot(source, 16 * MIB), 16 * MIB);
		setrlimit(resource, &old);
	}
}

static void limit_of_areas(void)
{
	size_t bytes = 200 * PAGE;
	char *source = small_pages(bytes);
	long limit = read_figure("/proc/sys/vm/max_map_count");
	char text[32];

	fill(source, bytes, 1);
	for (size_t at = 0; at < bytes; at += 2 * PAGE)
		EXPECT(mprotect(source + at, PAGE, PROT_READ) == 0, "mprotect");
	/* Some areas fit, the whole does not: what was made goes again. */
	EXPECT(write_text("/proc/sys/vm/max_map_count", "300"), "max_map_count");
	expect_refused(source, bytes, ENOMEM, "more areas than allowed");
	release(snapshot(source, 50 * PAGE), 50 * PAGE);
	snprintf(text, sizeof(text), "%ld", limit);
	EXPECT(write_text("/proc/sys/vm/max_map_count", text), "max_map_count");
	release(snapshot(source, bytes), bytes);
	expect_pattern(source, bytes, 1, "the source");
}

static long committed(void)
{
	char line[128];
	long figure = -1;
	FILE *file = fopen("/proc/meminfo", "r");

	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Committed_AS: %ld", &figure) == 1)
			break;
	fclose(file);
	return figure;
}

static void limit_of_memory(void)
{
	size_t bytes = 256 * MIB;
	char *source = small_pages(bytes), *taken[64];
	int count = 0;
	long before = committed();

	set_page(source, 1);
	EXPECT(write_text("/proc/sys/vm/overcommit_memory", "2"), "overcommit_memory");
	while (count < 64 && (taken[count] = vm_snapshot(source, bytes)) != MAP_FAILED)
		count++;
	EXPECT(count < 64 && errno == ENOMEM, "%d snapshots beyond the memory", count);
	write_text("/proc/sys/vm/overcommit_memory", "0");
	EXPECT(committed() - before >= (long)(bytes / 1024) * count, "%ld KiB committed",
	       committed() - before);
	while (count--)
		release(taken[count], bytes);
	/* Other processes commit and release some. */
	EXPECT(committed() - before < 32 * 1024, "%ld KiB stay committed", committed() - before);
}

const struct test error_tests[] = {
	{ "bad arguments", bad_arguments },
	{ "holes", holes },
	{ "areas of a kind that is refused", areas_of_a_kind },
	{ "special areas", special_areas },
	{ "limits of address space and data", limit_of_address_space },
	{ "limit of areas", limit_of_areas },
	{ "limit of committed memory", limit_of_memory },
	{ NULL, NULL },
};
