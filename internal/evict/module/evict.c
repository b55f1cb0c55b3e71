// The module that Envoy runs to end what intentions have come to forbid. It has two kinds of plugins,
// which share one instance of it in each worker of Envoy because their vm_id and their code are the same:
//
//   the tracker, without configuration: a filter of the public listener, of connections where it forwards
//   TCP and of requests where it speaks HTTP. Each connection or request has a context of it, so the
//   module knows what is open. Both are called streams here, as in Proxy-Wasm.
//
//   the rules, with configuration: a network filter that no connection ever runs. So no connection
//   holds it, and Envoy configures it anew whenever its rules change. A plugin that a connection holds
//   is taken up again without being configured when rules return to what they were.
//
// The configuration is lines in order of precedence: '+' or '-', and a pattern of identities with at
// most one '*'. The first that matches decides: '+' may stay, '-' is ended. Who matches none is ended.
// A '+' may be followed by words, each after a space, that name the peer's rights, and without any it may
// do everything: RIGHT, or RIGHT-BAR for what is taken from a right. Requests of a peer that may do less
// than before are ended when they are still there after a grace: which of them are forbidden is not known
// here, but those that end by themselves are not hurt.
//
// Whatever happens in here, nobody enters who may not: Envoy's own RBAC filters decide that.

typedef unsigned int u32;
typedef unsigned long long u64;

#define IMPORT(name) __attribute__((import_module("env"), import_name(#name))) u32 name
#define EXPORT(name) __attribute__((export_name(#name))) name

IMPORT(proxy_get_property)(const char *path, u32 path_size, char **value, u32 *size);
IMPORT(proxy_get_buffer_bytes)(u32 kind, u32 start, u32 max, char **value, u32 *size);
IMPORT(proxy_get_current_time_nanoseconds)(u64 *time);
IMPORT(proxy_set_effective_context)(u32 context);
IMPORT(proxy_set_tick_period_milliseconds)(u32 period);
IMPORT(proxy_close_stream)(u32 kind);

// Values of the interface of Proxy-Wasm 0.2.1.
enum { RESULT_OK = 0, RESULT_NOT_FOUND = 1 };
enum { BUFFER_PLUGIN_CONFIGURATION = 7 };
enum { STREAM_REQUEST = 0, STREAM_DOWNSTREAM = 2 };
enum { ACTION_CONTINUE = 0 };

// All memory is static: what is not used is never touched, and takes none.
enum {
  MAX_STREAMS = 1 << 18, // of a worker
  MAX_RULES = 1 << 13,
  MAX_TEXT = 1 << 20,
  MAX_SETS = 6, // the current, the one before it, and what Envoy is about to drop
  MAX_VALUE = 1 << 13,
};

enum {
  TICK_MILLISECONDS = 1000,
  // A request that came this soon after new rules may have been let in by the old ones.
  LATE_MILLISECONDS = 1000,
  GRACE_MILLISECONDS = 2000,
};

struct rule {
  const char *prefix, *suffix, *words;
  u32 prefix_size, suffix_size, words_size;
  u32 exact, keep;
};

// What one rules plugin was configured with. Root is its context, 0 when Envoy has none for it.
struct set {
  u32 root, count, age;
  struct rule rules[MAX_RULES];
  char text[MAX_TEXT];
};

struct stream {
  u32 context, kind;
  u32 judged; // by the current set
  u32 late;   // the set before counts for it too
  u64 doom;   // when it is ended, 0 for never
};

static struct set sets[MAX_SETS];
static struct set *current, *before; // none until there were rules: nothing is ended then
static u32 age;
static u64 changed; // when the current set became it

static struct stream streams[MAX_STREAMS];
static u32 stream_count, unjudged, doomed;
static u32 place[MAX_STREAMS]; // where a stream probably is, by the low bits of its context

static char value[MAX_VALUE]; // what the host returns
static char *next_allocation;
static u32 next_size;

// The host asks for memory only to return a value, one at a time.
void *EXPORT(proxy_on_memory_allocate)(u32 size) { return size <= next_size ? next_allocation : 0; }

static u64 milliseconds(void) {
  u64 time = 0;
  proxy_get_current_time_nanoseconds(&time);
  return time / 1000000;
}

static int equal(const char *a, const char *b, u32 size) {
  for (u32 i = 0; i < size; i++)
    if (a[i] != b[i]) return 0;
  return 1;
}

// Rules.

static int matches(const struct rule *r, const char *id, u32 size) {
  if (r->exact ? size != r->prefix_size : size < r->prefix_size + r->suffix_size) return 0;
  // The end differs between services, the beginning does not.
  return equal(id + size - r->suffix_size, r->suffix, r->suffix_size) && equal(id, r->prefix, r->prefix_size);
}

static const struct rule *rule_of(const struct set *s, const char *id, u32 size) {
  static const struct rule none;
  for (u32 i = 0; i < s->count; i++)
    if (matches(&s->rules[i], id, size)) return &s->rules[i];
  return &none;
}

// word returns the size of the word at p, which follows a space.
static u32 word(const char *p, const char *end) {
  u32 size = 0;
  while (p + size < end && p[size] != ' ') size++;
  return size;
}

// right returns the size of the right in a word: a bar follows a '-'.
static u32 right(const char *w, u32 size) {
  u32 n = 0;
  while (n < size && w[n] != '-') n++;
  return n;
}

static int has_word(const struct rule *r, const char *w, u32 size) {
  const char *end = r->words + r->words_size;
  for (const char *p = r->words; p < end;) {
    u32 n = word(++p, end);
    if (n == size && equal(p, w, n)) return 1;
    p += n;
  }
  return 0;
}

// shrinks says whether a rule permits less than another did: a right is gone, or one that was has a new bar.
static int shrinks(const struct rule *was, const struct rule *is) {
  if (!was->keep || is->words_size == 0) return 0;
  if (was->words_size == 0) return 1;
  const char *end = was->words + was->words_size;
  for (const char *p = was->words; p < end;) {
    u32 n = word(++p, end);
    if (right(p, n) == n && !has_word(is, p, n)) return 1;
    p += n;
  }
  end = is->words + is->words_size;
  for (const char *p = is->words; p < end;) {
    u32 n = word(++p, end), of = right(p, n);
    if (of < n && has_word(was, p, of) && !has_word(was, p, n)) return 1;
    p += n;
  }
  return 0;
}

static const char *until(const char *p, const char *end, char a, char b) {
  while (p < end && *p != '\n' && *p != a && *p != b) p++;
  return p;
}

// parse returns 0 when the text is not rules.
static int parse(struct set *s, u32 size) {
  const char *end = s->text + size;
  for (const char *p = s->text; p < end; p++) {
    if (s->count == MAX_RULES || (*p != '+' && *p != '-')) return 0;
    struct rule *r = &s->rules[s->count++];
    *r = (struct rule){.keep = *p == '+', .prefix = p + 1, .exact = 1};
    p = until(p + 1, end, '*', ' ');
    r->prefix_size = p - r->prefix;
    r->suffix = p;
    if (p < end && *p == '*') {
      r->exact = 0;
      r->suffix = p + 1;
      p = until(p + 1, end, '*', ' ');
      r->suffix_size = p - r->suffix;
    }
    r->words = p;
    if (p < end && *p == ' ') p = until(p, end, '\n', '\n');
    r->words_size = p - r->words;
    if (p == end || *p != '\n') return 0;
  }
  return s->count > 0;
}

// Judging.

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

static void judge(struct stream *s) {
  u32 size;
  if (!identity(&size)) return;
  s->judged = 1;
  unjudged--;
  const struct rule *is = rule_of(current, value, size);
  if (!is->keep) {
    proxy_close_stream(s->kind);
    return;
  }
  if (s->kind == STREAM_REQUEST && s->late && before && !s->doom && shrinks(rule_of(before, value, size), is)) {
    s->doom = changed + GRACE_MILLISECONDS;
    doomed++;
  }
  s->late = 0;
}

static void judge_all(u32 root) {
  if (!current) return;
  u64 now = milliseconds();
  // Backwards: what ends leaves its place to the last.
  for (u32 i = stream_count; i-- > 0;) {
    if (i >= stream_count) continue;
    struct stream *s = &streams[i];
    int due = s->doom && s->doom <= now;
    if ((s->judged && !due) || proxy_set_effective_context(s->context) != RESULT_OK) continue;
    if (due) {
      s->doom = 0;
      doomed--;
      proxy_close_stream(s->kind);
    } else {
      judge(s);
    }
  }
  proxy_set_effective_context(root);
}

static void use(struct set *s, u32 root) {
  before = current;
  current = s;
  changed = milliseconds();
  for (u32 i = 0; i < stream_count; i++) {
    streams[i].judged = 0;
    streams[i].late = 1;
  }
  unjudged = stream_count;
  judge_all(root);
}

static struct set *set_of(u32 root) {
  for (u32 i = 0; i < MAX_SETS; i++)
    if (sets[i].root == root) return &sets[i];
  return 0;
}

// unused_set returns one for new rules: a free one, or the oldest, which Envoy is slow to drop.
static struct set *unused_set(void) {
  struct set *best = 0;
  for (u32 i = 0; i < MAX_SETS; i++) {
    struct set *s = &sets[i];
    if (s == current || s == before) continue;
    if (!best || (best->root && (!s->root || s->age < best->age))) best = s;
  }
  return best;
}

// What the host calls.

void EXPORT(proxy_abi_version_0_2_1)(void) {}

u32 EXPORT(proxy_on_vm_start)(u32 root, u32 size) { return 1; }

void EXPORT(proxy_on_context_create)(u32 context, u32 parent) {}

// Both kinds of plugins are configured; only the rules have something to read.
u32 EXPORT(proxy_on_configure)(u32 root, u32 size) {
  proxy_set_tick_period_milliseconds(TICK_MILLISECONDS);
  if (size == 0) return 1;
  if (size > MAX_TEXT) return 0;
  struct set *s = unused_set();
  char *unused;
  u32 got = 0;
  s->root = 0;
  s->count = 0;
  next_allocation = s->text;
  next_size = MAX_TEXT;
  if (proxy_get_buffer_bytes(BUFFER_PLUGIN_CONFIGURATION, 0, size, &unused, &got) != RESULT_OK || !parse(s, got)) return 0;
  s->root = root;
  s->age = ++age;
  use(s, root);
  return 1;
}

static void track(u32 context, u32 kind) {
  if (stream_count == MAX_STREAMS) {
    proxy_close_stream(kind); // nothing is let in that could not be ended
    return;
  }
  place[context % MAX_STREAMS] = stream_count;
  u32 late = kind == STREAM_REQUEST && before && milliseconds() <= changed + LATE_MILLISECONDS;
  streams[stream_count++] = (struct stream){.context = context, .kind = kind, .late = late};
  unjudged++;
}

u32 EXPORT(proxy_on_new_connection)(u32 context) {
  track(context, STREAM_DOWNSTREAM);
  return ACTION_CONTINUE;
}

u32 EXPORT(proxy_on_request_headers)(u32 context, u32 count, u32 end) {
  track(context, STREAM_REQUEST);
  return ACTION_CONTINUE;
}

void EXPORT(proxy_on_tick)(u32 root) {
  if (unjudged > 0 || doomed > 0) judge_all(root);
}

u32 EXPORT(proxy_on_done)(u32 context) { return 1; }

static void forget(u32 context) {
  u32 i = place[context % MAX_STREAMS];
  if (i >= stream_count || streams[i].context != context)
    for (i = 0; i < stream_count && streams[i].context != context; i++) {}
  if (i == stream_count) return;
  if (!streams[i].judged) unjudged--;
  if (streams[i].doom) doomed--;
  streams[i] = streams[--stream_count];
  place[streams[i].context % MAX_STREAMS] = i;
}

// A set of rules that goes while it is the current one leaves an older one, which Envoy took up again
// without configuring it.
void EXPORT(proxy_on_delete)(u32 context) {
  struct set *s = set_of(context);
  if (!s) {
    forget(context);
    return;
  }
  s->root = 0;
  if (s != current) return;
  struct set *rest = 0;
  for (u32 i = 0; i < MAX_SETS; i++)
    if (sets[i].root && (!rest || sets[i].age > rest->age)) rest = &sets[i];
  if (rest) use(rest, context);
}
