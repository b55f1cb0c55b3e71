// The module that Envoy runs to end connections which intentions have come to forbid. It has two
// kinds of plugins, which share one instance of it in each worker of Envoy because their vm_id and
// their code are the same:
//
//   the tracker, without configuration: a network filter of the public listener. Each connection
//   has a context of it, so the module knows them.
//
//   the rules, with configuration: a network filter that no connection ever runs. So no connection
//   holds it, and Envoy configures it anew whenever its rules change. A plugin that a connection holds
//   is taken up again without being configured when rules return to what they were.
//
// The configuration is lines in order of precedence: '+' or '-', and a pattern of identities with at
// most one '*'. The first that matches decides: '+' may stay, '-' is ended. Who matches none is ended.
//
// Whatever happens in here, nobody enters who may not: Envoy's own RBAC filters decide that.

typedef unsigned int u32;

#define IMPORT(name) __attribute__((import_module("env"), import_name(#name))) u32 name
#define EXPORT(name) __attribute__((export_name(#name))) name

IMPORT(proxy_get_property)(const char *path, u32 path_size, char **value, u32 *size);
IMPORT(proxy_get_buffer_bytes)(u32 kind, u32 start, u32 max, char **value, u32 *size);
IMPORT(proxy_set_effective_context)(u32 context);
IMPORT(proxy_set_tick_period_milliseconds)(u32 period);
IMPORT(proxy_close_stream)(u32 kind);

// Values of the interface of Proxy-Wasm 0.2.1.
enum { RESULT_OK = 0, RESULT_NOT_FOUND = 1 };
enum { BUFFER_PLUGIN_CONFIGURATION = 7 };
enum { STREAM_DOWNSTREAM = 2 };
enum { ACTION_CONTINUE = 0 };

// All memory is static: what is not used is never touched, and takes none.
enum {
  MAX_CONNECTIONS = 1 << 18, // of a worker
  MAX_RULES = 1 << 13,
  MAX_TEXT = 1 << 20,
  MAX_SETS = 4, // sets of rules that Envoy holds at once: the newest and what it is about to drop
  MAX_VALUE = 1 << 13,
  TICK_MILLISECONDS = 1000,
};

struct rule {
  const char *prefix, *suffix;
  u32 prefix_size, suffix_size;
  u32 exact, keep;
};

// What one rules plugin was configured with. Root is its context, 0 when the set is free.
struct set {
  u32 root, count, age;
  struct rule rules[MAX_RULES];
  char text[MAX_TEXT];
};

struct connection {
  u32 context;
  u32 judged; // by the current set
};

static struct set sets[MAX_SETS];
static struct set *current; // none until there were rules: nobody is ended then
static u32 age;

static struct connection connections[MAX_CONNECTIONS];
static u32 connection_count;
static u32 unjudged;
static u32 place[MAX_CONNECTIONS]; // where a connection probably is, by the low bits of its context

static char value[MAX_VALUE]; // what the host returns
static char *next_allocation;
static u32 next_size;

// The host asks for memory only to return a value, one at a time.
void *EXPORT(proxy_on_memory_allocate)(u32 size) {
  return size <= next_size ? next_allocation : 0;
}

static int equal(const char *a, const char *b, u32 size) {
  for (u32 i = 0; i < size; i++)
    if (a[i] != b[i]) return 0;
  return 1;
}

static int matches(const struct rule *r, const char *id, u32 size) {
  if (r->exact ? size != r->prefix_size : size < r->prefix_size + r->suffix_size) return 0;
  // The end differs between services, the beginning does not.
  return equal(id + size - r->suffix_size, r->suffix, r->suffix_size) && equal(id, r->prefix, r->prefix_size);
}

static int may_stay(const char *id, u32 size) {
  for (u32 i = 0; i < current->count; i++)
    if (matches(&current->rules[i], id, size)) return current->rules[i].keep;
  return 0;
}

static u32 property(const char *path, u32 path_size, u32 *size) {
  char *unused;
  next_allocation = value;
  next_size = MAX_VALUE;
  *size = 0;
  return proxy_get_property(path, path_size, &unused, size);
}

// identity leaves the identity of the effective context in value, and returns 0 when it is not known yet:
// a handshake comes after the connection. A peer whose certificate has no identity is known, as nobody.
static int identity(u32 *size) {
  static const char san[] = "connection\0uri_san_peer_certificate", mtls[] = "connection\0mtls";
  u32 result = property(san, sizeof san - 1, size);
  if (result == RESULT_OK && *size > 0) return 1;
  int longer = result != RESULT_OK && result != RESULT_NOT_FOUND;
  int shaken = property(mtls, sizeof mtls - 1, size) == RESULT_OK && *size > 0 && value[0];
  *size = 0;
  return longer || shaken;
}

static void judge_all(u32 root) {
  if (!current) return;
  // Backwards: what ends leaves its place to the last.
  for (u32 i = connection_count; i-- > 0;) {
    u32 size;
    if (i >= connection_count || connections[i].judged) continue;
    if (proxy_set_effective_context(connections[i].context) != RESULT_OK || !identity(&size)) continue;
    connections[i].judged = 1;
    unjudged--;
    if (!may_stay(value, size)) proxy_close_stream(STREAM_DOWNSTREAM);
  }
  proxy_set_effective_context(root);
}

static void use(struct set *s, u32 root) {
  current = s;
  for (u32 i = 0; i < connection_count; i++) connections[i].judged = 0;
  unjudged = connection_count;
  judge_all(root);
}

// parse returns 0 when the text is not rules.
static int parse(struct set *s, u32 size) {
  const char *end = s->text + size;
  for (const char *p = s->text; p < end; p++) {
    if (s->count == MAX_RULES || (*p != '+' && *p != '-')) return 0;
    struct rule *r = &s->rules[s->count++];
    *r = (struct rule){.keep = *p == '+', .prefix = p + 1, .exact = 1};
    p++;
    while (p < end && *p != '\n' && *p != '*') p++;
    r->prefix_size = p - r->prefix;
    r->suffix = p;
    if (p < end && *p == '*') {
      r->exact = 0;
      r->suffix = ++p;
      while (p < end && *p != '\n' && *p != '*') p++;
      r->suffix_size = p - r->suffix;
    }
    if (p == end || *p != '\n') return 0;
  }
  return s->count > 0;
}

static struct set *set_of(u32 root) {
  for (u32 i = 0; i < MAX_SETS; i++)
    if (sets[i].root == root) return &sets[i];
  return 0;
}

void EXPORT(proxy_abi_version_0_2_1)(void) {}

u32 EXPORT(proxy_on_vm_start)(u32 root, u32 size) { return 1; }

void EXPORT(proxy_on_context_create)(u32 context, u32 parent) {}

// Both kinds of plugins are configured; only the rules have something to read.
u32 EXPORT(proxy_on_configure)(u32 root, u32 size) {
  proxy_set_tick_period_milliseconds(TICK_MILLISECONDS);
  if (size == 0) return 1;
  struct set *s = set_of(root);
  if (!s) s = set_of(0);
  if (!s || size > MAX_TEXT) return 0;
  char *unused;
  u32 got = 0;
  s->count = 0;
  next_allocation = s->text;
  next_size = MAX_TEXT;
  if (proxy_get_buffer_bytes(BUFFER_PLUGIN_CONFIGURATION, 0, size, &unused, &got) != RESULT_OK || !parse(s, got)) {
    s->root = 0;
    return 0;
  }
  s->root = root;
  s->age = ++age;
  use(s, root);
  return 1;
}

u32 EXPORT(proxy_on_new_connection)(u32 context) {
  if (connection_count == MAX_CONNECTIONS) {
    proxy_close_stream(STREAM_DOWNSTREAM); // nothing is let in that could not be ended
    return ACTION_CONTINUE;
  }
  place[context % MAX_CONNECTIONS] = connection_count;
  connections[connection_count++] = (struct connection){.context = context};
  unjudged++;
  return ACTION_CONTINUE;
}

void EXPORT(proxy_on_tick)(u32 root) {
  if (unjudged > 0) judge_all(root);
}

u32 EXPORT(proxy_on_done)(u32 context) { return 1; }

static void forget_connection(u32 context) {
  u32 i = place[context % MAX_CONNECTIONS];
  if (i >= connection_count || connections[i].context != context)
    for (i = 0; i < connection_count && connections[i].context != context; i++) {}
  if (i == connection_count) return;
  if (!connections[i].judged) unjudged--;
  connections[i] = connections[--connection_count];
  place[connections[i].context % MAX_CONNECTIONS] = i;
}

// A set of rules that goes while it is the current one leaves an older one, which Envoy took up again
// without configuring it.
void EXPORT(proxy_on_delete)(u32 context) {
  struct set *s = context ? set_of(context) : 0;
  if (!s) {
    forget_connection(context);
    return;
  }
  s->root = 0;
  if (s != current) return;
  struct set *rest = 0;
  for (u32 i = 0; i < MAX_SETS; i++)
    if (sets[i].root && (!rest || sets[i].age > rest->age)) rest = &sets[i];
  if (rest) use(rest, context);
}
