/* Threads that wait for locks of GLib. Its few functions are declared here: the library is there without its headers. */
#include "stopwatch.h"

extern "C" {
struct GMutex { void *p; };
struct GCond { void *p; unsigned i[2]; };
void g_mutex_lock(GMutex *);
void g_mutex_unlock(GMutex *);
void g_cond_wait(GCond *, GMutex *);
int g_cond_wait_until(GCond *, GMutex *, long end_us);
void g_cond_signal(GCond *);
long g_get_monotonic_time();
}

static Stopwatch mutex("GLib mutex lock"), cond("GLib cond idle"), timed("GLib cond timed");
static GMutex hot, news_mutex, never_mutex;
static GCond news, never;
static int items;

SITE static void want_mutex()
{
	take_turns(mutex, [] { g_mutex_lock(&hot); }, [] { g_mutex_unlock(&hot); });
}

SITE static void make()
{
	for (int i = 0; i < ROUNDS; i++) {
		sleep_us(2000);
		g_mutex_lock(&news_mutex);
		items++;
		g_mutex_unlock(&news_mutex);
		g_cond_signal(&news);
	}
}

SITE static void take()
{
	for (int taken = 0; taken < ROUNDS; taken++) {
		g_mutex_lock(&news_mutex);
		while (items == 0)
			cond.time([] { g_cond_wait(&news, &news_mutex); });
		items--;
		g_mutex_unlock(&news_mutex);
	}
}

SITE static void wait_in_vain()
{
	g_mutex_lock(&never_mutex);
	for (int i = 0; i < ROUNDS; i++)
		timed.time([] { g_cond_wait_until(&never, &never_mutex, g_get_monotonic_time() + 3000); });
	g_mutex_unlock(&never_mutex);
}

int main()
{
	together(want_mutex, want_mutex);
	together(make, take);
	wait_in_vain();
}
