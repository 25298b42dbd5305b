/* Threads that wait for locks of Qt. Its few classes are declared here: the library is there without its headers. */
#include "stopwatch.h"

class QMutex {
public:
	enum RecursionMode { NonRecursive, Recursive };
	explicit QMutex(RecursionMode mode = NonRecursive);
	~QMutex();
	void lock();
	void unlock();

private:
	void *d;
};

class QWaitCondition {
public:
	QWaitCondition();
	~QWaitCondition();
	bool wait(QMutex *, unsigned long ms);
	void wakeOne();

private:
	void *d;
};

class QSemaphore {
public:
	explicit QSemaphore(int n = 0);
	~QSemaphore();
	void acquire(int n);
	void release(int n);

private:
	void *d;
};

class QReadWriteLock {
public:
	enum RecursionMode { NonRecursive, Recursive };
	explicit QReadWriteLock(RecursionMode mode = NonRecursive);
	~QReadWriteLock();
	void lockForWrite();
	void unlock();

private:
	void *d;
};

static Stopwatch mutex("Qt QMutex lock"), book("Qt QReadWriteLock lock"), cond("Qt QWaitCondition idle"),
	semaphore("Qt QSemaphore idle");
static QMutex hot, news_mutex;
static QReadWriteLock pages;
static QWaitCondition news;
static QSemaphore jobs;
static int items;

SITE static void want_mutex()
{
	take_turns(mutex, [] { hot.lock(); }, [] { hot.unlock(); });
}

SITE static void write()
{
	take_turns(book, [] { pages.lockForWrite(); }, [] { pages.unlock(); });
}

SITE static void make()
{
	for (int i = 0; i < ROUNDS; i++) {
		sleep_us(2000);
		news_mutex.lock();
		items++;
		news_mutex.unlock();
		news.wakeOne();
		sleep_us(2000);
		jobs.release(1);
	}
}

SITE static void take()
{
	for (int taken = 0; taken < ROUNDS; taken++) {
		news_mutex.lock();
		while (items == 0)
			cond.time([] { news.wait(&news_mutex, -1UL); });
		items--;
		news_mutex.unlock();
		semaphore.time([] { jobs.acquire(1); });
	}
}

int main()
{
	together(want_mutex, want_mutex);
	together(write, write);
	together(make, take);
}
