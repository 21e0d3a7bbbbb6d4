/* A stand-in for libnvidia-ml.so.1 with four cards, for machines without a driver: only what envlock asks.
   STAND_IN_LOG: a file that gets one line for each time NVML is asked. STAND_IN_MIG: the last card is in two slices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int status;
typedef struct { unsigned long long total, free, used; } memory;
static int cards[4] = {0, 1, 2, 3}, slices[2] = {30, 31};
enum { NOT_FOUND = 6 };

status nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  const char *log = getenv("STAND_IN_LOG");
  FILE *file = log ? fopen(log, "a") : NULL;
  if (file) { fputs("asked\n", file); fclose(file); }
  return 0;
}
status nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
status nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(status code) { (void)code; return "not in the stand-in"; }
status nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.95.05"); return 0; }
status nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return 0; }
status nvmlDeviceGetCount_v2(unsigned *count) { *count = 4; return 0; }
status nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = &cards[index]; return 0; }
status nvmlDeviceGetCudaComputeCapability(void *card, int *major, int *minor) { (void)card; *major = 12; *minor = 0; return 0; }
status nvmlDeviceGetMemoryInfo(void *card, memory *info) { (void)card; memset(info, 0, sizeof *info); return 0; }
status nvmlDeviceGetUUID(void *card, char *text, unsigned size) {
  int number = *(int *)card;
  snprintf(text, size, "%s-%08d-stand-in", number < 4 ? "GPU" : "MIG", number);
  return 0;
}
status nvmlDeviceGetName(void *card, char *text, unsigned size) { (void)card; snprintf(text, size, "Stand-in"); return 0; }
status nvmlDeviceGetMigMode(void *card, unsigned *now, unsigned *later) {
  *now = *later = getenv("STAND_IN_MIG") && *(int *)card == 3;
  return 0;
}
status nvmlDeviceGetMaxMigDeviceCount(void *card, unsigned *count) { (void)card; *count = 7; return 0; }
status nvmlDeviceGetMigDeviceHandleByIndex(void *card, unsigned index, void **handle) {
  (void)card;
  if (index != 0 && index != 5) return NOT_FOUND; /* slices are numbered with gaps */
  *handle = &slices[index / 5];
  return 0;
}
