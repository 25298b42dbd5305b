/*
 * storage.c - waits for a disk: fsync, a read that misses the page cache, an O_DIRECT read and a
 * major page fault. They need a folder on a disk; on tmpfs there is nothing to wait for and they are
 * left out with a note.
 */
#include "waits.h"
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

enum { PAGE = 4096, FILE_PAGES = 4096 };

/* A file of random-looking pages on the disk, unlinked at once. */
struct stored {
	int fd, direct_fd;
	char *map;
	char *buffer; /* aligned for O_DIRECT */
	uint64_t random;
};

static off_t some_page(struct stored *s)
{
	s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
	return (off_t)((s->random >> 33) % FILE_PAGES) * PAGE;
}

static void fill(struct stored *s)
{
	for (int page = 0; page < FILE_PAGES; page++) {
		memset(s->buffer, page & 0x7f, PAGE);
		if (pwrite(s->fd, s->buffer, PAGE, (off_t)page * PAGE) != PAGE)
			die("cannot fill the file in --dir");
	}
	if (fsync(s->fd) != 0)
		die("fsync of the file in --dir");
	posix_fadvise(s->fd, 0, 0, POSIX_FADV_RANDOM);
}

static struct stored *stored_open(const char *kind)
{
	struct stored *s = calloc(1, sizeof *s);
	char path[4096];
	snprintf(path, sizeof path, "%s/waits-%d-%s.data", options.dir, getpid(), kind);
	s->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (s->fd < 0)
		die(path);
	s->direct_fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	unlink(path);
	if (posix_memalign((void **)&s->buffer, PAGE, PAGE) != 0)
		die("posix_memalign");
	fill(s);
	s->map = mmap(NULL, (size_t)FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, s->fd, 0);
	if (s->map == MAP_FAILED)
		die("mmap of the file in --dir");
	madvise(s->map, (size_t)FILE_PAGES * PAGE, MADV_RANDOM);
	return s;
}

SITE static void wait_fsync(struct stored *s)
{
	if (fsync(s->fd) != 0)
		die("fsync");
}

SITE static void wait_cold_read(struct stored *s, off_t at)
{
	if (pread(s->fd, s->buffer, PAGE, at) != PAGE)
		die("pread");
}

SITE static void wait_direct_read(struct stored *s, off_t at)
{
	if (pread(s->direct_fd, s->buffer, PAGE, at) != PAGE)
		die("pread with O_DIRECT");
}

SITE static void wait_major_fault(struct stored *s, off_t at)
{
	(void)*(volatile char *)(s->map + at);
	KEEP_FRAME();
}

/* What is mapped stays in the page cache. */
SITE static void unmap_page(struct stored *s, off_t at)
{
	madvise(s->map + at, PAGE, MADV_DONTNEED);
	KEEP_FRAME();
}

/* Throws a page out of the page cache. May wait for other processors to drain their lists. */
SITE static void drop_page(struct stored *s, off_t at)
{
	posix_fadvise(s->fd, at, PAGE, POSIX_FADV_DONTNEED);
	KEEP_FRAME();
}

SITE static void dirty_page(struct stored *s, off_t at)
{
	s->buffer[0]++;
	if (pwrite(s->fd, s->buffer, PAGE, at) != PAGE)
		die("pwrite");
}

/* A kind: something that prepares the wait, the wait, and what the wait is called. */
struct storage_kind {
	const char *kind, *function, *syscall, *reason;
	const char *prepare_function, *prepare_syscall, *prepare_reason;
	void (*prepare)(struct stored *, off_t);
	void (*wait)(struct stored *, off_t);
	struct stored *stored;
};

static void fsync_at(struct stored *s, off_t at)
{
	(void)at;
	wait_fsync(s);
}

static struct storage_kind kinds[] = {
	{ "fsync", "wait_fsync", "fsync", "io", "dirty_page", "pwrite64", "io", dirty_page, fsync_at, NULL },
	{ "coldread", "wait_cold_read", "pread64", "io", "drop_page", "fadvise64", "io", drop_page, wait_cold_read, NULL },
	{ "directread", "wait_direct_read", "pread64", "io", NULL, NULL, NULL, NULL, wait_direct_read, NULL },
	{ "fault", "wait_major_fault", "", "fault", "drop_page", "fadvise64", "io", drop_page, wait_major_fault, NULL },
};

SITE static void run_storage(struct worker *w)
{
	struct storage_kind *k = w->arg;
	struct thread_truth *t = &w->truth;
	k->stored->random = (uint64_t)t->tid;
	int wait = truth_site(t, k->function, k->syscall, k->reason, "");
	int pace = truth_site(t, "pace_sleep", "clock_nanosleep", "sleep", "");
	int prepare = k->prepare ? truth_site(t, k->prepare_function, k->prepare_syscall, k->prepare_reason, "") : -1;
	int unmap = k->wait == wait_major_fault ? truth_site(t, "unmap_page", "madvise", "lock", "") : -1;
	uint64_t next = now_ns();
	truth_loop_begin(t);
	while (time_left()) {
		off_t at = some_page(k->stored);
		struct wait_stamp before = truth_before(t, pace);
		pace_sleep(&next);
		truth_after(t, pace, before);
		if (unmap >= 0) {
			before = truth_before(t, unmap);
			unmap_page(k->stored, at);
			truth_after(t, unmap, before);
		}
		if (k->prepare) {
			before = truth_before(t, prepare);
			k->prepare(k->stored, at);
			truth_after(t, prepare, before);
		}
		before = truth_before(t, wait);
		k->wait(k->stored, at);
		truth_after(t, wait, before);
	}
	truth_loop_end(t);
}

static bool on_a_disk(void)
{
	struct statfs fs;
	if (statfs(options.dir, &fs) != 0)
		die(options.dir);
	return fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
}

void add_storage(void)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct storage_kind *k = &kinds[i];
		if (!kind_wanted(k->kind))
			continue;
		if (!on_a_disk()) {
			fprintf(stderr, "waits: %s is left out: %s is in memory; name a folder on a disk with --dir\n",
				k->kind, options.dir);
			continue;
		}
		k->stored = stored_open(k->kind);
		if (k->wait == wait_direct_read && k->stored->direct_fd < 0) {
			fprintf(stderr, "waits: directread is left out: %s refuses O_DIRECT\n", options.dir);
			continue;
		}
		worker_add(k->kind, run_storage, k);
	}
}
