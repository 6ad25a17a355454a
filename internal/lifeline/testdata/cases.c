// A program with a session, for the cases of TestCases. usage: cases SOCKET CASE
//
// Descriptor 3 is memory with 16 counters, and 4 a socket, if the case needs one. The program tells the lifeline of
// session 1, does what the case says, and says what has come of it, in a line. Whatever runs code of it advances a
// counter.
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t *counters;
static int reading, writing; // the pipe
static char **argv;

static void say(const char *format, ...) {
	char text[200];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (write(1, text, n) != n)
		_exit(1);
}

static void fail(const char *what) {
	say("failed: %s: %s\n", what, strerror(errno));
	_exit(1);
}

#define MUST(call) ({ __typeof__(call) result = (call); if (result == (__typeof__(call))-1) fail(#call); result; })

static void *spin(void *number) {
	for (;;)
		counters[(intptr_t)number]++;
	return NULL;
}

// Says the process id, and spins.
static int child(void *unused) {
	(void)unused;
	say("child %d\n", (int)syscall(SYS_getpid));
	spin(0);
	return 0;
}

static int child_without_pipe(void *unused) {
	close(writing);
	return child(unused);
}

static void *stack(void) {
	const size_t size = 1 << 18;
	char *low = MUST(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	return low + size;
}

static void threads(intptr_t n) {
	for (intptr_t i = 0; i < n; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, spin, (void *)i) != 0)
			fail("pthread_create");
	}
}

static void send_files(int to, const int *files, int n) {
	char byte = 1;
	struct iovec iov = {&byte, 1};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(header), files, n * sizeof(int));
	MUST(sendmsg(to, &message, 0));
}

// Speaks the protocol.
static void hand_over(const char *path) {
	int pipe[2];
	MUST(pipe2(pipe, O_CLOEXEC));
	reading = pipe[0], writing = pipe[1];
	int line = MUST(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	MUST(connect(line, (struct sockaddr *)&address, sizeof address));
	int files[2] = {MUST(syscall(SYS_pidfd_open, getpid(), 0)), reading};
	send_files(line, files, 2);
	char frame[400];
	snprintf(frame, sizeof frame, "{\"Add\":{\"ID\":\"1\",\"Handover\":\"aGFuZG92ZXIgb2YgMQ==\",\"Service\":{\"Scheme\":\"test\","
				      "\"TTL\":3600000000000,\"Servers\":[\"%s\"]}}}", path);
	uint32_t length = htobe32(strlen(frame));
	MUST(write(line, &length, sizeof length));
	MUST(write(line, frame, strlen(frame)));
	char answer[100] = {0};
	for (size_t n = 0; n < 4 || n < 4 + strlen("{\"Done\":\"1\"}");) {
		ssize_t got = MUST(read(line, answer + n, sizeof answer - 1 - n));
		if (got == 0)
			fail("the lifeline has gone");
		n += got;
	}
	if (strcmp(answer + 4, "{\"Done\":\"1\"}") != 0) {
		say("failed: %s\n", answer + 4);
		_exit(1);
	}
}

static void *execute(void *unused) {
	(void)unused;
	execl("/proc/self/exe", "cases", argv[1], "executed", NULL);
	fail("execl");
	return NULL;
}

// A ring whose only fixed file is the writing end. Its thread in the kernel polls, and a read of an empty pipe is
// pending.
static int ring(void) {
	struct io_uring_params params = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 1000};
	int fd = syscall(SYS_io_uring_setup, 4, &params);
	if (fd < 0) {
		say("denied: %s\n", strerror(errno));
		_exit(0);
	}
	MUST(syscall(SYS_io_uring_register, fd, IORING_REGISTER_FILES, &writing, 1));
	char *sq = MUST(mmap(NULL, params.sq_off.array + params.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING));
	char *cq = MUST(mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_CQ_RING));
	struct io_uring_sqe *sqes = MUST(mmap(NULL, params.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES));
	static char buffer[2];
	int empty[2];
	MUST(pipe2(empty, O_CLOEXEC));
	memset(sqes, 0, 2 * sizeof *sqes);
	sqes[0] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = empty[0], .addr = (uintptr_t)buffer, .len = 1};
	// A byte in the lifeline's pipe: it means nothing, and shows that the fixed file is that pipe.
	sqes[1] = (struct io_uring_sqe){.opcode = IORING_OP_WRITE, .flags = IOSQE_FIXED_FILE, .fd = 0, .addr = (uintptr_t)(buffer + 1), .len = 1};
	unsigned *array = (unsigned *)(sq + params.sq_off.array);
	array[0] = 0, array[1] = 1;
	__atomic_store_n((unsigned *)(sq + params.sq_off.tail), 2, __ATOMIC_RELEASE);
	while (__atomic_load_n((unsigned *)(cq + params.cq_off.tail), __ATOMIC_ACQUIRE) == 0) { // the write; the read is pending
		if (__atomic_load_n((unsigned *)(sq + params.sq_off.flags), __ATOMIC_ACQUIRE) & IORING_SQ_NEED_WAKEUP)
			MUST(syscall(SYS_io_uring_enter, fd, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0));
		usleep(100);
	}
	struct io_uring_cqe *done = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
	if (done->res != 1) {
		errno = -done->res;
		fail("write through the ring");
	}
	return fd;
}

static void *look_up(void *path) {
	struct stat status;
	stat(path, &status);
	return spin(0);
}

static void run(const char *name) {
	if (strcmp(name, "threads") == 0) {
		threads(8);
		say("running\n");
	} else if (strcmp(name, "the main thread has ended") == 0) {
		threads(1);
		say("running\n");
		pthread_exit(NULL);
	} else if (strcmp(name, "vfork") == 0) {
		if (MUST(syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0)) == 0)
			child(NULL);
	} else if (strcmp(name, "CLONE_VM") == 0) {
		MUST(clone(child, stack(), CLONE_VM | SIGCHLD, NULL));
	} else if (strcmp(name, "CLONE_FILES") == 0) {
		MUST(clone(child, stack(), CLONE_FILES | SIGCHLD, NULL));
	} else if (strcmp(name, "fork") == 0) {
		if (MUST(fork()) == 0)
			child(NULL);
	} else if (strcmp(name, "a PID namespace") == 0) { // its init has the pipe
		int init = MUST(syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0));
		if (init == 0) {
			if (MUST(fork()) == 0) {
				close(writing);
				spin(0);
			}
			for (;;)
				pause();
		}
		say("init %d\n", init);
	} else if (strcmp(name, "CLONE_VM without the pipe") == 0) {
		MUST(clone(child_without_pipe, stack(), CLONE_VM | SIGCHLD, NULL));
	} else if (strcmp(name, "fork without the pipe") == 0) {
		if (MUST(fork()) == 0)
			child_without_pipe(NULL);
	} else if (strcmp(name, "in flight") == 0) {
		send_files(4, &writing, 1);
		say("running\n");
	} else if (strcmp(name, "execve") == 0) {
		execute(NULL);
	} else if (strcmp(name, "execve in a thread") == 0) {
		pthread_t thread;
		threads(2);
		if (pthread_create(&thread, NULL, execute, NULL) != 0)
			fail("pthread_create");
		pause();
	} else if (strcmp(name, "io_uring") == 0) {
		ring();
		say("running\n");
		spin(0);
	} else if (strcmp(name, "io_uring in a child") == 0) {
		ring();
		if (MUST(fork()) == 0)
			child_without_pipe(NULL);
	} else if (strncmp(name, "look up ", 8) == 0) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, look_up, (void *)(name + 8)) != 0)
			fail("pthread_create");
		say("running\n");
	} else if (strcmp(name, "spin until told") == 0) {
		threads(1);
		say("running\n");
		char byte;
		MUST(read(0, &byte, 1));
		_exit(0);
	} else {
		say("failed: there is no case %s\n", name);
		_exit(1);
	}
	for (;;)
		pause();
}

int main(int argc, char **arguments) {
	argv = arguments;
	if (argc != 3)
		return 1;
	counters = MUST(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0));
	if (strcmp(argv[2], "executed") == 0) {
		say("running\n");
		spin(0);
	}
	hand_over(argv[1]);
	run(argv[2]);
}
