/* Stands between a process and the C library, for tests: notes writes, syncs and what is sent, lets syncs fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(char what) {
    const char *path = getenv("TRIOMQ_TEST_TRACE");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (file >= 0) {
        syscall(SYS_write, file, &what, 1);
        close(file);
    }
}

static int fails(void) {
    const char *path = getenv("TRIOMQ_TEST_SYNC_FAILS");
    return path && access(path, F_OK) == 0;
}

static int sync_by(const char *name, int file) {
    if (fails()) {
        errno = EIO;
        return -1;
    }
    int result = ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
    note('s');
    return result;
}

int fdatasync(int file) { return sync_by("fdatasync", file); }
int fsync(int file) { return sync_by("fsync", file); }

ssize_t pwrite64(int file, const void *octets, size_t length, off64_t offset) {
    note('w');
    return ((ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64"))(file, octets, length, offset);
}

ssize_t pwrite(int file, const void *octets, size_t length, off_t offset) {
    note('w');
    return ((ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(file, octets, length, offset);
}

/* How basic.ack begins on channel 1: a broker's confirm is told from all else that is sent. */
static const char confirm[] = "\1\0\1\0\0\0\15\0\74\0\120";

ssize_t send(int wire, const void *octets, size_t length, int flags) {
    note(memmem(octets, length, confirm, sizeof confirm - 1) ? 'a' : 'c');
    return ((ssize_t(*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send"))(wire, octets, length, flags);
}
