// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

char *vm_snapshot(const void *source, size_t bytes)
{
	return (char *)syscall(CALL_NUMBER, source, bytes);
}

char *snapshot(const void *source, size_t bytes)
{
	char *taken = vm_snapshot(source, bytes);

	EXPECT(taken != MAP_FAILED, "snapshot of %zu bytes at %p", bytes, source);
	EXPECT((uintptr_t)taken % PAGE == 0, "%p", taken);
	EXPECT(taken + bytes <= (char *)source || taken >= (char *)source + bytes, "%p overlaps %p",
	       taken, source);
	return taken;
}

void expect_refused(const void *source, size_t bytes, int error, const char *why)
{
	const char *before = maps(), *after;
	char *taken;

	errno = 0;
	taken = vm_snapshot(source, bytes);
	EXPECT(taken == MAP_FAILED, "%s was not refused", why);
	EXPECT(errno == error, "%s: want errno %d", why, error);
	after = maps();
	EXPECT(strcmp(before, after) == 0, "%s changed the address space:\n%s\n%s", why, before, after);
}

static char *memory(size_t bytes, int flags)
{
	char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
			   -1, 0);

	EXPECT(start != MAP_FAILED, "mmap of %zu bytes", bytes);
	return start;
}

char *small_pages(size_t bytes)
{
	char *start = memory(bytes, 0);

	madvise(start, bytes, MADV_NOHUGEPAGE);
	return start;
}

char *huge_pages(size_t bytes)
{
	char *start = memory(bytes + HUGE, 0);
	char *aligned = (char *)(((uintptr_t)start + HUGE - 1) / HUGE * HUGE);

	if (aligned > start)
		release(start, aligned - start);
	release(aligned + bytes, start + HUGE - aligned);
	EXPECT(madvise(aligned, bytes, MADV_HUGEPAGE) == 0, "no huge pages");
	return aligned;
}

int memory_file(size_t bytes)
{
	int file = memfd_create("test", 0);

	EXPECT(file >= 0 && ftruncate(file, bytes) == 0, "memfd of %zu bytes", bytes);
	return file;
}

void release(void *start, size_t bytes)
{
	if (bytes)
		EXPECT(munmap(start, bytes) == 0, "munmap of %zu bytes at %p", bytes, start);
}

void set_page(char *page, uint64_t value)
{
	memcpy(page, &value, 8);
	memcpy(page + PAGE - 8, &value, 8);
}

uint64_t page_value(const char *page)
{
	uint64_t first, last;

	memcpy(&first, page, 8);
	memcpy(&last, page + PAGE - 8, 8);
	return first == last ? first : UINT64_MAX;
}

void fill(char *start, size_t bytes, uint64_t mark)
{
	for (size_t at = 0; at < bytes; at += PAGE)
		set_page(start + at, mark + at / PAGE);
}

void expect_pattern(const char *start, size_t bytes, uint64_t mark, const char *of)
{
	for (size_t at = 0; at < bytes; at += PAGE)
		EXPECT(page_value(start + at) == mark + at / PAGE, "page %zu of %s holds %llu, want %llu",
		       at / PAGE, of, (unsigned long long)page_value(start + at),
		       (unsigned long long)(mark + at / PAGE));
}

struct place place_of(const void *address)
{
	static int file = -1;
	static pid_t owner;
	uint64_t entry;

	if (owner != getpid()) {
		owner = getpid();
		file = open("/proc/self/pagemap", O_RDONLY);
	}
	EXPECT(pread(file, &entry, 8, (uintptr_t)address / PAGE * 8) == 8, "pagemap");
	if (entry >> 63)
		return (struct place){ PRESENT, entry & ((1ull << 55) - 1) };
	if (entry >> 62 & 1)
		return (struct place){ SWAPPED, entry & ((1ull << 55) - 1) };
	return (struct place){ 0, 0 };
}

static size_t same_places(const char *first, const char *second, size_t bytes)
{
	size_t same = 0;

	for (size_t at = 0; at < bytes; at += PAGE) {
		struct place one = place_of(first + at), other = place_of(second + at);

		same += one.where && one.where == other.where && one.number == other.number;
	}
	return same;
}

void expect_shared(const char *first, const char *second, size_t bytes)
{
	size_t same = same_places(first, second, bytes);

	EXPECT(same == bytes / PAGE, "%zu of %zu pages are shared", same, bytes / PAGE);
}

void expect_apart(const char *first, const char *second, size_t bytes)
{
	size_t same = same_places(first, second, bytes);

	EXPECT(same == 0, "%zu of %zu pages are still shared", same, bytes / PAGE);
}

long status(const char *name)
{
	char line[256];
	long figure = -1;
	FILE *file = fopen("/proc/self/status", "r");

	EXPECT(file, "status");
	while (figure < 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
			figure = strtol(line + strlen(name) + 1, NULL, 10);
	fclose(file);
	return figure;
}

long area_figure(const void *address, const char *name)
{
	char line[512];
	long figure = -1;
	bool within = false;
	unsigned long start, end;
	FILE *file = fopen("/proc/self/smaps", "r");

	EXPECT(file, "smaps");
	while (figure < 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			within = start <= (uintptr_t)address && (uintptr_t)address < end;
		else if (within && strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
			figure = strtol(line + strlen(name) + 1, NULL, 10);
	}
	fclose(file);
	EXPECT(figure >= 0, "no %s for %p", name, address);
	return figure;
}

long read_figure(const char *path)
{
	char text[64] = "";
	int file = open(path, O_RDONLY);

	if (file < 0)
		return -1;
	EXPECT(read(file, text, sizeof(text) - 1) > 0, "read %s", path);
	close(file);
	return strtol(text, NULL, 10);
}

bool write_text(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);
	bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);

	if (file >= 0)
		close(file);
	return written;
}

const char *maps(void)
{
	/* No memory is asked for: it would show. */
	static char buffers[2][MIB / 2];
	static int turn;
	char *buffer = buffers[turn = !turn];
	size_t length = 0;
	ssize_t got;
	int file = open("/proc/self/maps", O_RDONLY);

	EXPECT(file >= 0, "maps");
	while ((got = read(file, buffer + length, sizeof(buffers[0]) - 1 - length)) > 0)
		length += got;
	close(file);
	buffer[length] = 0;
	return buffer;
}

int in_child(void (*part)(void *), void *with)
{
	int state;
	pid_t child;

	fflush(stdout);
	child = fork();
	EXPECT(child >= 0, "fork");
	if (child == 0) {
		part(with);
		fflush(stdout);
		_exit(0);
	}
	EXPECT(waitpid(child, &state, 0) == child, "waitpid");
	return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

uint64_t next_number(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33;
}
