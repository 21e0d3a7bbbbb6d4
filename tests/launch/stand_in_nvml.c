/* A stand-in for libnvidia-ml.so.1 with four cards, for machines without a driver: only what envlock asks. */
#include <stdio.h>
#include <string.h>

typedef int status;
typedef struct { unsigned long long total, free, used; } memory;
static int cards[4] = {0, 1, 2, 3};

status nvmlInitWithFlags(unsigned flags) { (void)flags; return 0; }
status nvmlInit_v2(void) { return 0; }
status nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(status code) { (void)code; return "not in the stand-in"; }
status nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.95.05"); return 0; }
status nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return 0; }
status nvmlDeviceGetCount_v2(unsigned *count) { *count = 4; return 0; }
status nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = &cards[index]; return 0; }
status nvmlDeviceGetCudaComputeCapability(void *card, int *major, int *minor) { (void)card; *major = 12; *minor = 0; return 0; }
status nvmlDeviceGetMemoryInfo(void *card, memory *info) { (void)card; memset(info, 0, sizeof *info); return 0; }
status nvmlDeviceGetUUID(void *card, char *text, unsigned size) { snprintf(text, size, "GPU-%08d-stand-in", *(int *)card); return 0; }
status nvmlDeviceGetName(void *card, char *text, unsigned size) { (void)card; snprintf(text, size, "Stand-in"); return 0; }
