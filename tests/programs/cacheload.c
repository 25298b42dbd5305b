/*
 * cacheload: clients of a memcached that keep it busy with a few items, so that its threads meet at locks.
 * `cacheload SOCKET SECONDS CLIENTS` prints what was answered: {"sets":…,"gets":…}. An answer that is wrong
 * is an error: the value of an item is its key, over and over.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = 4, VALUE = 100, AT_ONCE = 16, LINE = 256 };

static const char *socket_path;
static atomic_ulong sets, gets;
static double end;

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void wrong(const char *what, const char *answer)
{
	fprintf(stderr, "cacheload: %s: %s\n", what, answer);
	exit(1);
}

static FILE *connect_to(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	strncpy(address.sun_path, socket_path, sizeof address.sun_path - 1);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
		wrong("connect", socket_path);
	return fdopen(fd, "r+");
}

static void expect(FILE *server, const char *wanted)
{
	char line[LINE];
	if (!fgets(line, sizeof line, server) || strcmp(line, wanted) != 0)
		wrong(wanted, line);
}

static void *client(void *number)
{
	unsigned seed = (unsigned)(size_t)number;
	FILE *server = connect_to();
	char value[ITEMS][VALUE + 3], header[ITEMS][LINE];
	for (int i = 0; i < ITEMS; i++) {
		memset(value[i], 'a' + i, VALUE);
		strcpy(value[i] + VALUE, "\r\n");
		snprintf(header[i], LINE, "VALUE item%d 0 %d\r\n", i, VALUE);
	}
	while (now() < end) {
		int item[AT_ONCE];
		for (int n = 0; n < AT_ONCE; n++) {
			item[n] = rand_r(&seed) % ITEMS;
			fprintf(server, "set item%d 0 0 %d\r\n%sget item%d\r\n", item[n], VALUE, value[item[n]], item[n]);
		}
		fflush(server);
		for (int n = 0; n < AT_ONCE; n++) {
			expect(server, "STORED\r\n");
			expect(server, header[item[n]]);
			expect(server, value[item[n]]);
			expect(server, "END\r\n");
		}
		sets += AT_ONCE;
		gets += AT_ONCE;
		/* A stream changes its direction only there. */
		fseek(server, 0, SEEK_CUR);
	}
	fclose(server);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	socket_path = argv[1];
	end = now() + atof(argv[2]);
	int count = atoi(argv[3]);
	pthread_t *threads = calloc((size_t)count, sizeof *threads);
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, client, (void *)(size_t)(i + 1)) != 0)
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("{\"sets\":%lu,\"gets\":%lu}\n", sets, gets);
	return 0;
}
