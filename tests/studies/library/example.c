/* A program that uses the library: one kernel, one step, and points of a study, from several threads at once, each with a session
 * of its own. Build: cc example.c $(pkg-config --cflags --libs reckon) -pthread
 * Usage: example MODEL.json; prints a line per answer. */
#include <pthread.h>
#include <sim/reckon.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const struct sim_error *error)
{
    fprintf(stderr, "example: %s\n", error->text);
    return 1;
}

static int kernel_and_step(struct reckon *reckon, const struct reckon_device *device, const char *model)
{
    struct sim_error error;
    struct reckon_kernel_request kernel_request = { .suite = "gather", .kernel = "random_rows", .params = "row_bytes=256;table_mb=64;n=65536" };
    struct reckon_model_request model_request = { .path = model };
    struct reckon_kernel *kernel = NULL;
    struct graph *graph = NULL;
    struct reckon_prediction *step = NULL;
    if (reckon_kernel(reckon, device, &kernel_request, &kernel, &error) != SIM_OK) {
        return fail(&error);
    }
    printf("kernel %s/%s on %s: %.3f us\n", kernel->suite, kernel->kernel, kernel->device, kernel->time_us);
    reckon_kernel_free(kernel);
    if (reckon_graph_describe(reckon, &model_request, &graph, &error) != SIM_OK) {
        return fail(&error);
    }
    struct reckon_predict_request request = { .graph = graph, .model = &model_request };
    if (reckon_predict(reckon, device, &request, &step, &error) != SIM_OK) {
        return fail(&error);
    }
    printf("step of %s on %s: %.6f ms\n", step->source, step->device, step->step_ms);
    reckon_prediction_free(step);
    reckon_graph_free(graph);
    return 0;
}

struct point_task {
    const char *model, *setting;
    double step_ms, gpu_busy_ms;
};

/* A point of a study. Sessions with jobs = 1 fork nothing, so threads are safe, each with its own. */
static void *point(void *argument)
{
    struct point_task *task = argument;
    struct reckon_options options = { .jobs = 1, .seed = 1 };
    struct reckon_point_request request = { .settings = &task->setting, .setting_count = 1 };
    struct reckon *reckon = NULL;
    struct reckon_device *device = NULL;
    struct reckon_source *source = NULL;
    struct reckon_prediction *step = NULL;
    struct sim_error error;
    if (reckon_create(&options, &reckon, &error) == SIM_OK && reckon_device_open(reckon, "mi350x", NULL, &device, &error) == SIM_OK &&
        reckon_source_open(reckon, &task->model, 1, 0, &source, &error) == SIM_OK &&
        reckon_point(reckon, device, source, &request, &step, &error) == SIM_OK) {
        task->step_ms = step->step_ms;
        task->gpu_busy_ms = step->gpu_busy_ms;
    } else {
        fail(&error);
    }
    reckon_prediction_free(step);
    reckon_source_close(source);
    reckon_device_close(device);
    reckon_destroy(reckon);
    return NULL;
}

int main(int argc, char **argv)
{
    struct reckon_options options = { .jobs = 1, .seed = 1 };
    struct reckon *reckon = NULL;
    struct reckon_device *device = NULL;
    struct sim_error error;
    if (argc != 2) {
        fprintf(stderr, "usage: example MODEL.json\n");
        return 1;
    }
    if (reckon_create(&options, &reckon, &error) != SIM_OK || reckon_device_open(reckon, "b200", NULL, &device, &error) != SIM_OK) {
        return fail(&error);
    }
    int code = kernel_and_step(reckon, device, argv[1]);
    struct point_task tasks[] = { { argv[1], "batch=64", 0, 0 }, { argv[1], "batch=128", 0, 0 }, { argv[1], "batch=128", 0, 0 }, { argv[1], "batch=256", 0, 0 } };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, point, &tasks[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        printf("point %s on mi350x: %.6f ms, %.6f ms of it on the GPU\n", tasks[i].setting, tasks[i].step_ms, tasks[i].gpu_busy_ms);
        code = tasks[i].step_ms > 0 ? code : 1;
    }
    reckon_device_close(device);
    reckon_destroy(reckon);
    return code;
}
