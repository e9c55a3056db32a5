// Connections of libfabric with remote writes, behind functions that can be linked: libfabric's own are inline ones of its headers.
//
// Functions return 0 or a negative code of libfabric, of which the lower ones are errno's. What they have opened when they fail is
// closed. `step` is set to the name of what failed. Times are in milliseconds, -1 is for ever.

#include <endian.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

// How often a queue is looked at before its reader sleeps: for some ten microseconds, as to be woken takes the peer about as long. Others
// who want the core have it in between.
#define SPINS 32

// Receives that are posted: providers that say FI_RX_CQ_DATA take one for each write that carries an immediate, all take one for
// each message.
#define RECEIVES 64

// Most iovecs of one write, whatever the provider allows.
#define PARTS 8

// Libraries of network cards that come with libfabric catch signals when they are loaded: they print where the program was, and end it
// with 1, whatever it wants to do then. That is undone before the program begins.
__attribute__((constructor)) static void leave_signals_to_the_program(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGABRT, SIGBUS, SIGILL, SIGSEGV};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            signal(signals[i], SIG_DFL);
    }
}

#define TRY(call, name)                                                                                                            \
    do {                                                                                                                           \
        *step = name;                                                                                                              \
        code = (int)(call);                                                                                                        \
        if (code != 0)                                                                                                             \
            goto failed;                                                                                                           \
    } while (0)

#define TOKEN_LEN 32

static const char MAGIC[8] = "TABANEf2";

// What who connects shows. Verbs carries 55 bytes at most.
struct plea {
    char magic[8];
    unsigned char token[TOKEN_LEN];
};

// What the other side answers, little-endian: where its ring is.
struct welcome {
    char magic[8];
    uint64_t address;
    uint64_t key;
    uint64_t len;
};

union greeting {
    char magic[8];
    struct plea plea;
    struct welcome welcome;
};

struct tabane_network {
    struct fi_info *info;
    struct fid_fabric *fabric;
};

// What happens to a connection, or who wants one.
struct events {
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    int fd;
    // Readable from the moment that `is_over` is set, when nothing is waited for any more.
    int over_fd;
    atomic_int is_over;
};

struct tabane_listener {
    struct tabane_network *network;
    struct events events;
    struct fid_pep *pep;
};

// Somebody who wants to connect.
struct tabane_request {
    struct tabane_listener *listener;
    // Its handle is nil once an endpoint has it.
    struct fi_info *info;
};

struct queue {
    struct fid_cq *cq;
    int fd;
};

struct tabane_endpoint {
    struct fid_domain *domain;
    struct events events;
    struct queue sent;
    struct queue arrived;
    // Held while `ep` is used, since a write that fails closes it.
    pthread_mutex_t lock;
    struct fid_ep *ep;
    int mr_mode;
    size_t iov_limit;
    int writes_take_receives;
    struct fid_mr *ring;
    // Where the peer's ring is.
    uint64_t peer_address;
    uint64_t peer_key;
    uint64_t peer_len;
    void *staging;
    size_t staging_len;
    struct fid_mr *staging_mr;
};

void tabane_endpoint_free(struct tabane_endpoint *e);

// --- Networks ---

static struct fi_info *hints_for(const char *provider)
{
    struct fi_info *hints = fi_allocinfo();
    if (hints == NULL)
        return NULL;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_RX_CQ_DATA;
    // Connected endpoints keep the order of writes, which the receiver's rule for where they go rests on, and tell when the peer
    // is gone.
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    if (provider != NULL)
        hints->fabric_attr->prov_name = strdup(provider);
    return hints;
}

// The names of all providers that could be asked for, separated by commas.
void tabane_providers(char *names, size_t len)
{
    names[0] = 0;
    struct fi_info *hints = hints_for(NULL), *all = NULL;
    if (hints == NULL || fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &all) != 0)
        all = NULL;
    const char *last = "";
    for (struct fi_info *info = all; info != NULL; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        if (strcmp(name, last) == 0 || strlen(names) + strlen(name) + 3 > len)
            continue;
        if (names[0] != 0)
            strcat(names, ", ");
        strcat(names, name);
        last = name;
    }
    fi_freeinfo(all);
    fi_freeinfo(hints);
}

const char *tabane_strerror(int code)
{
    return fi_strerror(-code);
}

void tabane_network_free(struct tabane_network *network)
{
    if (network->fabric != NULL)
        fi_close(&network->fabric->fid);
    fi_freeinfo(network->info);
    free(network);
}

// The network on which `host` is; `is_source` if that is an address of this machine, to listen at.
int tabane_network_open(const char *provider, const char *host, const char *port, int is_source, struct tabane_network **out,
                        const char **step)
{
    int code = -FI_ENOMEM;
    *step = "calloc";
    struct fi_info *hints = hints_for(provider);
    struct tabane_network *network = calloc(1, sizeof *network);
    if (hints == NULL || network == NULL)
        goto failed;
    TRY(fi_getinfo(FI_VERSION(1, 11), host, port, is_source ? FI_SOURCE : 0, hints, &network->info), "fi_getinfo");
    TRY(fi_fabric(network->info->fabric_attr, &network->fabric, NULL), "fi_fabric");
    fi_freeinfo(hints);
    *out = network;
    return 0;
failed:
    fi_freeinfo(hints);
    if (network != NULL)
        tabane_network_free(network);
    return code;
}

// --- Waiting ---

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int64_t deadline_of(int timeout)
{
    return timeout < 0 ? INT64_MAX : now() + timeout;
}

static int open_events(struct tabane_network *network, struct events *events)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};
    events->fabric = network->fabric;
    events->over_fd = eventfd(0, EFD_CLOEXEC);
    if (events->over_fd < 0)
        return -FI_EMFILE;
    int code = fi_eq_open(network->fabric, &attr, &events->eq, NULL);
    return code != 0 ? code : fi_control(&events->eq->fid, FI_GETWAIT, &events->fd);
}

static void close_events(struct events *events)
{
    if (events->eq != NULL)
        fi_close(&events->eq->fid);
    if (events->over_fd >= 0)
        close(events->over_fd);
}

static void end(struct events *events)
{
    atomic_store(&events->is_over, 1);
    eventfd_write(events->over_fd, 1);
}

// Sleeps until there is an event, or something in the queue, if there is one, or it is over. fi_cq_sread would only notice the
// second.
static int rest(struct events *events, struct queue *queue, int64_t deadline)
{
    struct fid *fids[] = {&events->eq->fid, queue == NULL ? NULL : &queue->cq->fid};
    int code = fi_trywait(events->fabric, fids, queue == NULL ? 1 : 2);
    if (code != 0)
        return code == -FI_EAGAIN ? 0 : code;
    int timeout = -1;
    if (deadline != INT64_MAX) {
        int64_t left = deadline - now();
        if (left <= 0)
            return -FI_ETIMEDOUT;
        timeout = (int)left;
    }
    struct pollfd fds[] = {
        {events->fd, POLLIN, 0}, {events->over_fd, POLLIN, 0}, {queue == NULL ? -1 : queue->fd, POLLIN, 0}};
    poll(fds, 3, timeout);
    return 0;
}

// Waits for an event of this kind, and gives the peer's greeting of so many bytes.
static int await_event(struct events *events, uint32_t kind, int timeout, union greeting *peer, size_t peer_len,
                       struct fi_info **info)
{
    struct {
        struct fi_eq_cm_entry cm;
        union greeting greeting;
    } entry;
    memset(&entry, 0, sizeof entry);
    uint32_t event = 0;
    int64_t deadline = deadline_of(timeout);
    ssize_t len;
    while ((len = fi_eq_read(events->eq, &event, &entry, sizeof entry, 0)) == -FI_EAGAIN) {
        if (atomic_load(&events->is_over))
            return -FI_ESHUTDOWN;
        int code = rest(events, NULL, deadline);
        if (code != 0)
            return code;
    }
    if (len == -FI_EAVAIL) {
        struct fi_eq_err_entry error = {0};
        fi_eq_readerr(events->eq, &error, 0);
        return error.err > 0 ? -error.err : -FI_EOTHER;
    }
    if (len < 0)
        return (int)len;
    if (info != NULL)
        *info = entry.cm.info;
    if (event != kind)
        return -FI_ECONNABORTED;
    if (peer == NULL)
        return 0;
    if ((size_t)len < sizeof entry.cm + peer_len || memcmp(entry.greeting.magic, MAGIC, sizeof MAGIC) != 0)
        return -FI_ENOMSG;
    *peer = entry.greeting;
    return 0;
}

// --- Endpoints ---

static int open_queue(struct tabane_endpoint *e, struct queue *queue)
{
    struct fi_cq_attr attr = {.wait_obj = FI_WAIT_FD, .format = FI_CQ_FORMAT_DATA};
    int code = fi_cq_open(e->domain, &attr, &queue->cq, NULL);
    return code != 0 ? code : fi_control(&queue->cq->fid, FI_GETWAIT, &queue->fd);
}

// An endpoint that is not connected yet.
static int open_endpoint(struct tabane_network *network, struct fi_info *info, struct tabane_endpoint **out, const char **step)
{
    int code = -FI_ENOMEM;
    *step = "calloc";
    struct tabane_endpoint *e = calloc(1, sizeof *e);
    if (e == NULL)
        return code;
    pthread_mutex_init(&e->lock, NULL);
    e->mr_mode = info->domain_attr->mr_mode;
    e->iov_limit = info->tx_attr->iov_limit < PARTS ? info->tx_attr->iov_limit : PARTS;
    e->writes_take_receives = (info->mode & FI_RX_CQ_DATA) != 0;
    TRY(open_events(network, &e->events), "fi_eq_open");
    TRY(fi_domain(network->fabric, info, &e->domain, NULL), "fi_domain");
    TRY(open_queue(e, &e->sent), "fi_cq_open");
    TRY(open_queue(e, &e->arrived), "fi_cq_open");
    TRY(fi_endpoint(e->domain, info, &e->ep, NULL), "fi_endpoint");
    // The endpoint has the peer's request to connect now: nobody else may reject it.
    info->handle = NULL;
    TRY(fi_ep_bind(e->ep, &e->events.eq->fid, 0), "fi_ep_bind");
    TRY(fi_ep_bind(e->ep, &e->sent.cq->fid, FI_TRANSMIT), "fi_ep_bind");
    TRY(fi_ep_bind(e->ep, &e->arrived.cq->fid, FI_RECV), "fi_ep_bind");
    TRY(fi_enable(e->ep), "fi_enable");
    for (size_t i = 0; i < RECEIVES && i < info->rx_attr->size; i++)
        TRY(fi_recv(e->ep, NULL, 0, NULL, 0, NULL), "fi_recv");
    *out = e;
    return 0;
failed:
    tabane_endpoint_free(e);
    return code;
}

int tabane_connect(struct tabane_network *network, const unsigned char *token, int timeout, struct tabane_endpoint **out,
                   const char **step)
{
    struct plea plea;
    union greeting peer;
    struct tabane_endpoint *e = NULL;
    int code = open_endpoint(network, network->info, &e, step);
    if (code != 0)
        return code;
    memcpy(plea.magic, MAGIC, sizeof MAGIC);
    memcpy(plea.token, token, TOKEN_LEN);
    TRY(fi_connect(e->ep, network->info->dest_addr, &plea, sizeof plea), "fi_connect");
    TRY(await_event(&e->events, FI_CONNECTED, timeout, &peer, sizeof peer.welcome, NULL), "fi_connect");
    e->peer_address = le64toh(peer.welcome.address);
    e->peer_key = le64toh(peer.welcome.key);
    e->peer_len = le64toh(peer.welcome.len);
    *out = e;
    return 0;
failed:
    tabane_endpoint_free(e);
    return code;
}

// No thread may be in another function with this endpoint.
void tabane_endpoint_free(struct tabane_endpoint *e)
{
    if (e->ep != NULL) {
        // Flushes what the provider has taken, which closing alone would not.
        fi_shutdown(e->ep, 0);
        fi_close(&e->ep->fid);
    }
    if (e->staging_mr != NULL)
        fi_close(&e->staging_mr->fid);
    free(e->staging);
    if (e->ring != NULL)
        fi_close(&e->ring->fid);
    if (e->arrived.cq != NULL)
        fi_close(&e->arrived.cq->fid);
    if (e->sent.cq != NULL)
        fi_close(&e->sent.cq->fid);
    close_events(&e->events);
    if (e->domain != NULL)
        fi_close(&e->domain->fid);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

// --- Listeners ---

// No request of it may be left.
void tabane_listener_free(struct tabane_listener *listener)
{
    if (listener->pep != NULL)
        fi_close(&listener->pep->fid);
    close_events(&listener->events);
    free(listener);
}

int tabane_listen(struct tabane_network *network, struct tabane_listener **out, uint16_t *port, const char **step)
{
    int code = -FI_ENOMEM;
    *step = "calloc";
    struct tabane_listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL)
        return code;
    listener->network = network;
    TRY(open_events(network, &listener->events), "fi_eq_open");
    TRY(fi_passive_ep(network->fabric, network->info, &listener->pep, NULL), "fi_passive_ep");
    TRY(fi_pep_bind(listener->pep, &listener->events.eq->fid, 0), "fi_pep_bind");
    TRY(fi_listen(listener->pep), "fi_listen");
    struct sockaddr_storage address = {0};
    size_t len = sizeof address;
    TRY(fi_getname(&listener->pep->fid, &address, &len), "fi_getname");
    *port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                : ((struct sockaddr_in *)&address)->sin_port);
    *out = listener;
    return 0;
failed:
    tabane_listener_free(listener);
    return code;
}

// Wakes who waits for a request.
void tabane_listener_close(struct tabane_listener *listener)
{
    end(&listener->events);
}

// Rejects who was not accepted.
void tabane_request_free(struct tabane_request *request)
{
    if (request->info->handle != NULL)
        fi_reject(request->listener->pep, request->info->handle, NULL, 0);
    fi_freeinfo(request->info);
    free(request);
}

// Waits for somebody who wants to connect, and gives the token that he shows. One thread at a time.
int tabane_next_request(struct tabane_listener *listener, struct tabane_request **out, unsigned char *token, const char **step)
{
    int code = -FI_ENOMEM;
    *step = "calloc";
    struct tabane_request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return code;
    union greeting peer;
    request->listener = listener;
    TRY(await_event(&listener->events, FI_CONNREQ, -1, &peer, sizeof peer.plea, &request->info), "fi_listen");
    memcpy(token, peer.plea.token, TOKEN_LEN);
    *out = request;
    return 0;
failed:
    if (request->info != NULL)
        tabane_request_free(request);
    else
        free(request);
    return code;
}

// Lets somebody in, whose writes go to `ring`.
int tabane_accept(struct tabane_request *request, void *ring, size_t len, int timeout, struct tabane_endpoint **out,
                  const char **step)
{
    struct welcome welcome = {.len = htole64(len)};
    struct tabane_endpoint *e = NULL;
    int code = open_endpoint(request->listener->network, request->info, &e, step);
    if (code != 0)
        return code;
    // The domain is this connection's alone, so one key for all of them gives no peer the ring of another.
    TRY(fi_mr_reg(e->domain, ring, len, FI_REMOTE_WRITE, 0, 1, 0, &e->ring, NULL), "fi_mr_reg");
    memcpy(welcome.magic, MAGIC, sizeof MAGIC);
    welcome.address = htole64(e->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)ring : 0);
    welcome.key = htole64(fi_mr_key(e->ring));
    TRY(fi_accept(e->ep, &welcome, sizeof welcome), "fi_accept");
    TRY(await_event(&e->events, FI_CONNECTED, timeout, NULL, 0, NULL), "fi_accept");
    *out = e;
    return 0;
failed:
    tabane_endpoint_free(e);
    return code;
}

// --- Moving bytes ---

// The next completion of this queue.
static int next(struct tabane_endpoint *e, struct queue *queue, int timeout, struct fi_cq_data_entry *entry)
{
    int64_t deadline = deadline_of(timeout);
    for (int spins = 0;; spins++) {
        // Before the queue is looked at: what came before the end is in it.
        int is_over = atomic_load(&e->events.is_over);
        ssize_t count = fi_cq_read(queue->cq, entry, 1);
        if (count == 1)
            return 0;
        if (count == -FI_EAVAIL) {
            struct fi_cq_err_entry error = {0};
            fi_cq_readerr(queue->cq, &error, 0);
            return error.err > 0 ? -error.err : -FI_EOTHER;
        }
        if (count < 0 && count != -FI_EAGAIN)
            return (int)count;
        if (is_over)
            return -FI_ESHUTDOWN;
        if (spins < SPINS) {
            sched_yield();
            continue;
        }
        // A connection has no events but that it is over.
        struct fi_eq_cm_entry event;
        uint32_t kind;
        ssize_t len = fi_eq_read(e->events.eq, &kind, &event, sizeof event, 0);
        if (len != -FI_EAGAIN) {
            end(&e->events);
            continue;
        }
        int code = rest(&e->events, queue, deadline);
        if (code != 0)
            return code;
    }
}

static int post_receive(struct tabane_endpoint *e)
{
    pthread_mutex_lock(&e->lock);
    int code = e->ep == NULL ? -FI_ESHUTDOWN : (int)fi_recv(e->ep, NULL, 0, NULL, 0, NULL);
    pthread_mutex_unlock(&e->lock);
    return code;
}

// Waits for the next immediate.
int tabane_wait(struct tabane_endpoint *e, int timeout, uint32_t *immediate)
{
    struct fi_cq_data_entry entry = {0};
    int code = next(e, &e->arrived, timeout, &entry);
    if (code != 0)
        return code;
    if (e->writes_take_receives || (entry.flags & FI_RECV) != 0) {
        code = post_receive(e);
        if (code != 0)
            return code;
    }
    if ((entry.flags & FI_REMOTE_CQ_DATA) == 0)
        return -FI_ENOMSG;
    *immediate = (uint32_t)entry.data;
    return 0;
}

// Puts all parts behind one another into registered memory, which becomes the only part.
static int stage(struct tabane_endpoint *e, struct iovec *parts, size_t *count, size_t total)
{
    if (e->staging_len < total) {
        if (e->staging_mr != NULL)
            fi_close(&e->staging_mr->fid);
        e->staging_mr = NULL;
        free(e->staging);
        e->staging_len = 0;
        e->staging = malloc(total);
        if (e->staging == NULL)
            return -FI_ENOMEM;
        int code = fi_mr_reg(e->domain, e->staging, total, FI_WRITE, 0, 2, 0, &e->staging_mr, NULL);
        if (code != 0)
            return code;
        e->staging_len = total;
    }
    char *to = e->staging;
    for (size_t i = 0; i < *count; i++) {
        memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
    parts[0] = (struct iovec){e->staging, total};
    *count = 1;
    return 0;
}

static ssize_t post(struct tabane_endpoint *e, struct iovec *parts, size_t count, size_t total, uint64_t offset, uint32_t immediate)
{
    if (e->ep == NULL)
        return -FI_ESHUTDOWN;
    // Without bytes there is no place that they could go to: the peer may have no ring.
    if (total == 0)
        return fi_senddata(e->ep, NULL, 0, NULL, immediate, 0, NULL);
    void *descriptors[PARTS] = {0};
    if (e->staging_mr != NULL && parts[0].iov_base == e->staging)
        descriptors[0] = fi_mr_desc(e->staging_mr);
    struct fi_rma_iov to = {.addr = e->peer_address + offset, .len = total, .key = e->peer_key};
    struct fi_msg_rma write = {
        .msg_iov = parts, .desc = descriptors, .iov_count = count, .rma_iov = &to, .rma_iov_count = 1, .data = immediate};
    return fi_writemsg(e->ep, &write, FI_REMOTE_CQ_DATA | FI_COMPLETION);
}

// Writes `parts` and waits until they may change. One thread at a time. `parts` is changed; none is empty.
int tabane_write(struct tabane_endpoint *e, uint64_t offset, struct iovec *parts, size_t count, uint32_t immediate, int timeout)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += parts[i].iov_len;
    if (offset > e->peer_len || total > e->peer_len - offset)
        return -FI_EMSGSIZE;
    int code = 0;
    if (total > 0 && ((e->mr_mode & FI_MR_LOCAL) != 0 || count > e->iov_limit))
        code = stage(e, parts, &count, total);
    if (code != 0)
        return code;
    int64_t deadline = deadline_of(timeout);
    ssize_t posted;
    for (;;) {
        pthread_mutex_lock(&e->lock);
        posted = post(e, parts, count, total, offset, immediate);
        pthread_mutex_unlock(&e->lock);
        if (posted != -FI_EAGAIN || atomic_load(&e->events.is_over) || now() > deadline)
            break;
        // There is never more than one write on its way, so that this passes soon.
        fi_cq_read(e->sent.cq, NULL, 0);
    }
    if (posted != 0)
        return posted == -FI_EAGAIN ? -FI_ETIMEDOUT : (int)posted;
    struct fi_cq_data_entry entry;
    code = next(e, &e->sent, timeout, &entry);
    if (code != 0) {
        // The provider may still read what the caller is about to change: it stops when the endpoint is closed.
        end(&e->events);
        pthread_mutex_lock(&e->lock);
        fi_close(&e->ep->fid);
        e->ep = NULL;
        pthread_mutex_unlock(&e->lock);
    }
    return code;
}

void tabane_close(struct tabane_endpoint *e)
{
    end(&e->events);
    pthread_mutex_lock(&e->lock);
    if (e->ep != NULL)
        fi_shutdown(e->ep, 0);
    pthread_mutex_unlock(&e->lock);
}
