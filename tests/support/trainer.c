/* The smallest trainer that takes part: reports by fprintf, two signals, five-region checkpoints.
   trainer STEPS STEPS_A_SECOND CADENCE N_PARAMS [NAN_STEP]      no companion, no phases, no orders */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop, save;
static void on_term(int number) { (void)number; stop = 1; }
static void on_usr1(int number) { (void)number; save = 1; }
static FILE *reports;
static long seq;
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static void head(const char *report) {
    fprintf(reports, "{\"seq\":%ld,\"report\":\"%s\",\"at\":%.6f,", ++seq, report, now());
}
static void checkpoint(const char *run, int32_t step, int32_t n, const char *reason) {
    char folder[4096], temporary[4200], path[4200];
    double began = now();
    head("doing"), fprintf(reports, "\"what\":\"save\",\"step\":%d}\n", step);
    fsync(fileno(reports));
    snprintf(folder, sizeof folder, "%s/checkpoints", run);
    snprintf(temporary, sizeof temporary, "%s/.step_%06d.%d.tmp", folder, step, getpid());
    snprintf(path, sizeof path, "%s/step_%06d.bin", folder, step);
    FILE *file = fopen(temporary, "wbx");
    if (!file) { perror(temporary); exit(4); }
    fwrite(&step, 4, 1, file), fwrite(&n, 4, 1, file);
    for (int32_t i = 0; i < 3 * n; i++) { /* weights, m, v: here they follow from step and place */
        float value = (1 + (i + step) % 97) * (i < n ? 1e-2f : i < 2 * n ? 1e-4f : 1e-6f);
        fwrite(&value, 4, 1, file);
    }
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY);
    if (fflush(file) || fsync(fileno(file)) || fclose(file) || rename(temporary, path) || fsync(descriptor))
        { perror(path); exit(4); }
    close(descriptor);
    head("checkpoint"), fprintf(reports, "\"step\":%d,\"name\":\"step_%06d.bin\",\"sha256\":\"\",\"bytes\":%ld,"
        "\"reason\":\"%s\",\"seconds\":%.6f,\"save\":null}\n", step, step, 8 + 12L * n, reason, now() - began);
}
int main(int count, char **words) {
    const char *run = getenv("STEPKEEPER_RUN"), *resume = getenv("STEPKEEPER_RESUME");
    if (count < 5 || !run) { fprintf(stderr, "usage: trainer STEPS RATE CADENCE N_PARAMS [NAN_STEP]\n"); return 2; }
    int32_t steps = atoi(words[1]), every = atoi(words[3]), n = atoi(words[4]), header[2] = {0, n};
    int32_t step = 0, saved = -1, odd = count > 5 ? atoi(words[5]) : -1;
    double rate = atof(words[2]);
    if (resume && *resume) {
        FILE *file = fopen(resume, "rb");
        if (!file || fread(header, 4, 2, file) != 2 || header[1] != n) { perror(resume); return 4; }
        fclose(file), saved = step = header[0];
    }
    if (!(reports = fopen(getenv("STEPKEEPER_REPORTS"), "a"))) { perror("reports"); return 4; }
    setvbuf(reports, NULL, _IOLBF, 1 << 16);
    signal(SIGTERM, on_term), signal(SIGUSR1, on_usr1);
    head("ready"), fprintf(reports, "\"pid\":%d,\"n_params\":%d,\"step\":%d,\"companion\":false}\n", getpid(), n, step);
    while (step < steps && !stop) {
        step++;
        float loss = step == odd ? -NAN : 2.0f + 400.0f / (step + 100);
        head("step"), fprintf(reports, "\"step\":%d,\"loss\":%.6f,\"arm\":\"a\",\"lr\":0.0003}\n", step, loss);
        int asked = save;
        if (step % every == 0 || asked || stop || step == steps) {
            save = 0;
            checkpoint(run, saved = step, n, stop ? "stop" : asked ? "signal" : "cadence");
        }
        if (rate > 0) usleep(1e6 / rate);
    }
    if (saved != step) checkpoint(run, step, n, "stop");
    head("finished"), fprintf(reports, "\"reason\":\"%s\",\"step\":%d}\n", stop ? "stop" : "steps", step);
    return fclose(reports) ? 4 : 0;
}
