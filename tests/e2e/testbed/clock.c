// The clock of one node: `node-runc` lets the programs of its pods load this library before all others.
//
// The time of the day is that of the machine plus the seconds in the file $NODE_CLOCK, which may change at any moment (`testbed clock`).
// CLOCK_MONOTONIC stays the machine's, as on a node whose clock steps. Waits until a time of the day end at that time as the program sees it;
// a step does not end or prolong a wait that has begun.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES 13                            // As `testbed clock` writes it: sign, digits, line feed.
#define WAITS_BY_MONOTONIC(condition) ((condition)->__data.__wrefs & 2) // As glibc keeps it since 2.25.
#define MACHINES(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const char *offset_text = "0";
static __typeof__(&clock_gettime) machines_time;

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("NODE_CLOCK");
  int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *text = mmap(NULL, TEXT_BYTES, PROT_READ, MAP_SHARED, file, 0);
  if (text != MAP_FAILED) offset_text = text;
  close(file);
}

static time_t offset(clockid_t clock) {
  int is_of_the_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  return is_of_the_day ? strtol(offset_text, NULL, 10) : 0;
}

static struct timespec at_the_machine(clockid_t clock, const struct timespec *time) {
  return (struct timespec){time->tv_sec - offset(clock), time->tv_nsec};
}

// --- The time

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (machines_time == NULL) machines_time = MACHINES(clock_gettime);
  int result = machines_time(clock, time);
  if (result == 0) time->tv_sec += offset(clock);
  return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void)zone; // Obsolete.
  int result = clock_gettime(CLOCK_REALTIME, &now);
  if (result == 0) *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
  return result;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (seconds != NULL) *seconds = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec *time, int base) {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}

// --- Waits until a time

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
  struct timespec until = flags & TIMER_ABSTIME ? at_the_machine(clock, time) : *time;
  return MACHINES(clock_nanosleep)(clock, flags, &until, left);
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *time) {
  struct timespec until = at_the_machine(clock, time);
  return MACHINES(pthread_cond_clockwait)(condition, mutex, clock, &until);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict time) {
  clockid_t clock = WAITS_BY_MONOTONIC(condition) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  return pthread_cond_clockwait(condition, mutex, clock, time);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *time) {
  struct timespec until = at_the_machine(clock, time);
  return MACHINES(sem_clockwait)(semaphore, clock, &until);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict time) {
  return sem_clockwait(semaphore, CLOCK_REALTIME, time);
}
