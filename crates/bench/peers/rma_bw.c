// Remote writes with an immediate each, by libfabric alone, in the manner of fi_rma_bw -o writedata of its own tests: two processes
// that never sleep, up to 64 writes on their way. They go one behind the other into memory of AREA bytes, again and again: one as
// long as a write is what fi_rma_bw has, which stays in the caches.
//
// Usage: rma_bw PROVIDER BYTES AREA MILLISECONDS; prints bytes a second.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define WINDOW 64
#define LAST 1

#define MUST(call)                                                                     \
    do {                                                                               \
        long code = (long)(call);                                                      \
        if (code < 0) {                                                                \
            fprintf(stderr, "rma_bw: %s: %s\n", #call, fi_strerror((int)-code));       \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *sent, *arrived;
static struct fid_ep *ep;
static struct fid_mr *mr;
static char *memory;

struct greeting {
    uint64_t address, key;
};

static struct fi_info *info_of(const char *provider, const char *port, int is_source)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(provider);
    MUST(fi_getinfo(FI_VERSION(1, 11), "127.0.0.1", port, is_source ? FI_SOURCE : 0, hints, &info));
    return info;
}

static struct greeting open_endpoint(struct fi_info *info, size_t len)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    MUST(fi_domain(fabric, info, &domain, NULL));
    MUST(fi_eq_open(fabric, &eq_attr, &eq, NULL));
    MUST(fi_cq_open(domain, &attr, &sent, NULL));
    MUST(fi_cq_open(domain, &attr, &arrived, NULL));
    MUST(fi_endpoint(domain, info, &ep, NULL));
    MUST(fi_ep_bind(ep, &eq->fid, 0));
    MUST(fi_ep_bind(ep, &sent->fid, FI_TRANSMIT));
    MUST(fi_ep_bind(ep, &arrived->fid, FI_RECV));
    MUST(fi_enable(ep));
    memory = malloc(len);
    memset(memory, 7, len);
    MUST(fi_mr_reg(domain, memory, len, FI_WRITE | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
    for (int i = 0; i < WINDOW; i++)
        MUST(fi_recv(ep, NULL, 0, NULL, 0, NULL));
    uint64_t address = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)memory : 0;
    return (struct greeting){address, fi_mr_key(mr)};
}

static struct fi_info *await_event(struct fid_eq *from, struct greeting *peer)
{
    struct {
        struct fi_eq_cm_entry cm;
        struct greeting greeting;
    } entry;
    uint32_t event;
    MUST(fi_eq_sread(from, &event, &entry, sizeof entry, 10000, 0));
    if (peer != NULL)
        *peer = entry.greeting;
    return entry.cm.info;
}

static struct fi_cq_data_entry next(struct fid_cq *cq)
{
    struct fi_cq_data_entry entry;
    ssize_t count;
    while ((count = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
        ;
    MUST(count);
    return entry;
}

static void serve(const char *provider, size_t area, int port_to)
{
    struct fid_pep *pep;
    struct fid_eq *pep_eq;
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_info *info = info_of(provider, "0", 1);
    MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
    MUST(fi_eq_open(fabric, &attr, &pep_eq, NULL));
    MUST(fi_passive_ep(fabric, info, &pep, NULL));
    MUST(fi_pep_bind(pep, &pep_eq->fid, 0));
    MUST(fi_listen(pep));
    struct sockaddr_in address;
    size_t address_len = sizeof address;
    MUST(fi_getname(&pep->fid, &address, &address_len));
    MUST(write(port_to, &address.sin_port, 2));

    info = await_event(pep_eq, NULL);
    struct greeting own = open_endpoint(info, area);
    int takes_receives = (info->mode & FI_RX_CQ_DATA) != 0;
    MUST(fi_accept(ep, &own, sizeof own));
    await_event(eq, NULL);
    struct fi_cq_data_entry entry;
    do {
        entry = next(arrived);
        if (takes_receives || (entry.flags & FI_RECV))
            MUST(fi_recv(ep, NULL, 0, NULL, 0, NULL));
    } while (entry.data != LAST);
    MUST(fi_senddata(ep, NULL, 0, NULL, LAST, 0, NULL));
    next(sent);
    // Until the client has gone: what was sent must reach it. Only who reads the queue notices.
    struct fi_eq_cm_entry gone;
    uint32_t event;
    while (fi_eq_read(eq, &event, &gone, sizeof gone, 0) == -FI_EAGAIN)
        fi_cq_read(arrived, NULL, 0);
    exit(0);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **arguments)
{
    if (count != 5)
        return 2;
    size_t len = strtoul(arguments[2], NULL, 10);
    size_t area = strtoul(arguments[3], NULL, 10);
    double seconds = strtod(arguments[4], NULL) / 1000;
    int port_pipe[2];
    if (pipe(port_pipe) != 0)
        return 1;
    pid_t server = fork();
    if (server == 0)
        serve(arguments[1], area, port_pipe[1]);
    close(port_pipe[1]);
    uint16_t port;
    if (read(port_pipe[0], &port, 2) != 2)
        return 1;
    char port_text[8];
    snprintf(port_text, sizeof port_text, "%u", ntohs(port));

    struct fi_info *info = info_of(arguments[1], port_text, 0);
    MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
    open_endpoint(info, len);
    struct greeting peer;
    MUST(fi_connect(ep, info->dest_addr, NULL, 0));
    await_event(eq, &peer);

    uint64_t writes = 0;
    int pending = 0;
    double begun = now();
    for (int is_last = 0; !is_last; writes++) {
        is_last = writes % WINDOW == 0 && now() - begun > seconds;
        ssize_t code;
        uint64_t to = peer.address + writes % (area / len) * len;
        while ((code = fi_writedata(ep, memory, len, fi_mr_desc(mr), is_last ? LAST : 0, 0, to, peer.key, NULL)) ==
               -FI_EAGAIN)
            fi_cq_read(sent, NULL, 0);
        MUST(code);
        for (pending++; pending >= WINDOW; pending--)
            next(sent);
    }
    for (; pending > 0; pending--)
        next(sent);
    next(arrived);
    printf("%.0f\n", (double)(writes * len) / (now() - begun));
    fflush(stdout);
    MUST(fi_shutdown(ep, 0));
    fi_close(&ep->fid);
    waitpid(server, NULL, 0);
    return 0;
}
