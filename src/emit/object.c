/* The loader of objects: a relocatable ELF object that the back end made, or that the cache kept, or several
 * that are the parts of one program, come in; code in this process goes out. The sections that are loaded are
 * laid out one after the other in one mapping, places of outside functions behind them, relocations are
 * applied, and the mapping becomes executable and read-only. Everything is checked against the object's
 * bounds: what is not understood is an error, never a guess. */
#include "emit/emit.h"

#include <elf.h>
#include <errno.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { HOST_MACHINE = EM_X86_64 };
#elif defined(__aarch64__) && defined(__AARCH64EL__)
enum { HOST_MACHINE = EM_AARCH64 };
#else
enum { HOST_MACHINE = EM_NONE };
#endif

/* Objects find the runtime in the table that they are called with. These are what a code generator may call
 * by itself: copies, and operations that small instruction sets lack. */
static const struct outside {
    const char *name;
    void *address;
} outside[] = {
    { "memcpy", (void *)memcpy },
    { "memmove", (void *)memmove },
    { "memset", (void *)memset },
    { "memcmp", (void *)memcmp },
    { "fma", (void *)(double (*)(double, double, double))fma },
    { "fmaf", (void *)(float (*)(float, float, float))fmaf },
    { "floor", (void *)(double (*)(double))floor },
    { "floorf", (void *)(float (*)(float))floorf },
    { "ceil", (void *)(double (*)(double))ceil },
    { "ceilf", (void *)(float (*)(float))ceilf },
    { "trunc", (void *)(double (*)(double))trunc },
    { "truncf", (void *)(float (*)(float))truncf },
    { "round", (void *)(double (*)(double))round },
    { "roundf", (void *)(float (*)(float))roundf },
    { "rint", (void *)(double (*)(double))rint },
    { "rintf", (void *)(float (*)(float))rintf },
    { "nearbyint", (void *)(double (*)(double))nearbyint },
    { "nearbyintf", (void *)(float (*)(float))nearbyintf },
    { "fmod", (void *)(double (*)(double, double))fmod },
    { "fmodf", (void *)(float (*)(float, float))fmodf },
    { "sqrt", (void *)(double (*)(double))sqrt },
    { "sqrtf", (void *)(float (*)(float))sqrtf },
};

enum { MAX_SECTIONS = 512, MAX_OUTSIDE = 32, STUB = 16, ERROR_ROOM = 512 };
/* The way to an outside function; see write_stub. */
struct stub {
    uint32_t symbol;
    uint64_t place; /* offset in the mapping */
    void *address;  /* of the function */
};
struct object {
    const struct object *parts; /* of the program, this one among them */
    uint32_t n_parts;
    const unsigned char *bytes;
    size_t n;
    const Elf64_Shdr *sections;
    uint32_t n_sections;
    const Elf64_Sym *symbols;
    uint32_t n_symbols;
    const char *names; /* of symbols */
    size_t n_names;
    uint64_t place[MAX_SECTIONS]; /* offset in the mapping, UNPLACED: not loaded */
    struct stub stubs[MAX_OUTSIDE];
    uint32_t n_stubs;
    unsigned char *image;
    uint64_t address; /* where the image will run */
    size_t used;
    uint32_t machine;
    char *error;
};
static const uint64_t UNPLACED = UINT64_MAX;

/* Notes what is wrong; false, for the caller to hand on. */
HOP_PRINTF(2, 3) static bool fail(const struct object *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(o->error, ERROR_ROOM, format, args);
    va_end(args);
    return false;
}

static bool inside(const struct object *o, uint64_t at, uint64_t bytes)
{
    return at <= o->n && bytes <= o->n - at;
}

static const Elf64_Ehdr *header_of(const struct object *o) { return (const Elf64_Ehdr *)o->bytes; }

static bool is_relocatable(const struct object *o)
{
    const Elf64_Ehdr *h = header_of(o);
    if (o->n < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG)) return false;
    return h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_type == ET_REL;
}

static bool read_header(struct object *o)
{
    if (!is_relocatable(o)) return fail(o, "not a relocatable 64-bit ELF object");
    const Elf64_Ehdr *h = header_of(o);
    if (h->e_machine != o->machine)
        return fail(o, "the object is for machine %u, this is %u", h->e_machine, o->machine);
    uint64_t table_bytes = (uint64_t)h->e_shnum * sizeof(Elf64_Shdr);
    if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff % 8 || !inside(o, h->e_shoff, table_bytes))
        return fail(o, "the section table is damaged");
    if (!h->e_shnum || h->e_shnum > MAX_SECTIONS)
        return fail(o, "the object has %u sections, at most %d are loaded", h->e_shnum, MAX_SECTIONS);
    o->sections = (const Elf64_Shdr *)(o->bytes + h->e_shoff);
    o->n_sections = h->e_shnum;
    for (uint32_t i = 0; i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        bool has_bytes = s->sh_type != SHT_NOBITS;
        if (has_bytes && !inside(o, s->sh_offset, s->sh_size))
            return fail(o, "section %u reaches past the end", i);
    }
    return true;
}

static bool read_symbol_table(struct object *o, const Elf64_Shdr *table)
{
    bool second = o->symbols != NULL;
    if (second || table->sh_entsize != sizeof(Elf64_Sym) || table->sh_offset % 8 ||
        table->sh_link >= o->n_sections)
        return fail(o, "the symbol table is damaged");
    const Elf64_Shdr *names = &o->sections[table->sh_link];
    if (names->sh_type != SHT_STRTAB || !names->sh_size) return fail(o, "the names of symbols are damaged");
    const char *first_name = (const char *)o->bytes + names->sh_offset;
    char behind_last_name = first_name[names->sh_size - 1];
    if (behind_last_name) return fail(o, "the names of symbols are damaged");
    o->symbols = (const Elf64_Sym *)(o->bytes + table->sh_offset);
    o->n_symbols = (uint32_t)(table->sh_size / sizeof(Elf64_Sym));
    o->names = first_name;
    o->n_names = names->sh_size;
    return true;
}

static bool read_symbols(struct object *o)
{
    for (uint32_t i = 0; i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        if (s->sh_type == SHT_SYMTAB && !read_symbol_table(o, s)) return false;
    }
    if (!o->symbols) return fail(o, "the object has no symbols");
    for (uint32_t i = 0; i < o->n_symbols; i++)
        if (o->symbols[i].st_name >= o->n_names) return fail(o, "the name of symbol %u is damaged", i);
    return true;
}

static const char *symbol_name(const struct object *o, const Elf64_Sym *y) { return o->names + y->st_name; }

/* Unwinding tables are of no use: nothing is thrown through native code. */
static bool is_unwinding(const struct object *o, const Elf64_Shdr *s)
{
    static const char unwinding[] = ".eh_frame";
    if (s->sh_type == SHT_X86_64_UNWIND) return true;
    uint32_t names_at = header_of(o)->e_shstrndx;
    if (names_at >= o->n_sections) return false;
    const Elf64_Shdr *names = &o->sections[names_at];
    if (names->sh_type != SHT_STRTAB || s->sh_name >= names->sh_size) return false;
    if (names->sh_size - s->sh_name < sizeof unwinding) return false;
    const unsigned char *name = o->bytes + names->sh_offset + s->sh_name;
    return !memcmp(name, unwinding, sizeof unwinding);
}

static bool is_needed(const struct object *o, const Elf64_Shdr *s)
{
    bool in_memory = s->sh_flags & SHF_ALLOC && s->sh_size;
    return in_memory && s->sh_type != SHT_NOTE && !is_unwinding(o, s);
}

static uint64_t align_up(uint64_t at, uint64_t align) { return (at + align - 1) & ~(align - 1); }

static bool place_section(struct object *o, uint32_t i)
{
    const Elf64_Shdr *s = &o->sections[i];
    if (s->sh_type != SHT_PROGBITS || s->sh_flags & (SHF_WRITE | SHF_TLS))
        return fail(o, "section %u has type %u and flags %llu, which code has no use for", i, s->sh_type,
                    (unsigned long long)s->sh_flags);
    uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
    bool power_of_two = !(align & (align - 1));
    if (!power_of_two || align > 4096)
        return fail(o, "section %u is aligned to %llu", i, (unsigned long long)align);
    o->place[i] = align_up(o->used, align);
    o->used = o->place[i] + s->sh_size;
    if (o->used > INT32_MAX / 2) return fail(o, "the object is larger than 1 GiB");
    return true;
}

static bool place_sections(struct object *o, struct loaded *out)
{
    for (uint32_t i = 0; i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        o->place[i] = UNPLACED;
        if (!is_needed(o, s)) continue;
        if (!place_section(o, i)) return false;
        if (s->sh_flags & SHF_EXECINSTR) out->code_bytes += s->sh_size;
    }
    return true;
}

static void *outside_address(const char *name)
{
    for (size_t k = 0; k < HOP_COUNT(outside); k++)
        if (!strcmp(outside[k].name, name)) return outside[k].address;
    return NULL;
}

/* The part that has a function of this name, and the number of its symbol; NULL: none has. */
static const struct object *part_with(const struct object *o, const char *name, uint32_t *symbol)
{
    for (uint32_t k = 0; k < o->n_parts; k++) {
        const struct object *part = &o->parts[k];
        for (uint32_t i = 1; i < part->n_symbols; i++) {
            const Elf64_Sym *y = &part->symbols[i];
            bool offered = y->st_shndx != SHN_UNDEF;
            if (!offered || strcmp(symbol_name(part, y), name)) continue;
            *symbol = i;
            return part;
        }
    }
    return NULL;
}

static bool place_stubs(struct object *o)
{
    uint32_t elsewhere;
    o->used = align_up(o->used, STUB);
    for (uint32_t i = 1; i < o->n_symbols; i++) {
        const char *name = symbol_name(o, &o->symbols[i]);
        bool defined = o->symbols[i].st_shndx != SHN_UNDEF;
        if (defined || !*name || part_with(o, name, &elsewhere)) continue;
        void *address = outside_address(name);
        if (!address || o->n_stubs == MAX_OUTSIDE)
            return fail(o, "the object needs '%.200s', which it is not given", name);
        o->stubs[o->n_stubs] = (struct stub){ .symbol = i, .place = o->used, .address = address };
        o->n_stubs++;
        o->used += STUB;
    }
    return true;
}

/* A stub jumps to the address in its second half, which also serves where the code wants a place that holds
 * an address. */
static void write_stub(const struct object *o, const struct stub *stub)
{
    enum { HALF = STUB / 2 };
    static const unsigned char x86[HALF] = { 0xff, 0x25, 2, 0, 0, 0, 0x0f, 0x0b }; /* jmp *2(%rip); ud2 */
    static const unsigned char arm[HALF] = {
        0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6
    }; /* ldr x16, .+8; br x16 */
    unsigned char *to = o->image + stub->place;
    uint64_t address = (uint64_t)(uintptr_t)stub->address;
    memcpy(to, o->machine == EM_X86_64 ? x86 : arm, HALF);
    memcpy(to + HALF, &address, HALF);
}

static const struct stub *stub_of(const struct object *o, uint32_t symbol)
{
    for (uint32_t k = 0; k < o->n_stubs; k++)
        if (o->stubs[k].symbol == symbol) return &o->stubs[k];
    return NULL;
}

/* Offset in the image of a symbol that the object defines. */
static bool defined_place(const struct object *o, uint32_t symbol, uint64_t *place)
{
    const Elf64_Sym *y = &o->symbols[symbol];
    uint32_t section = y->st_shndx;
    bool loaded = section < o->n_sections && o->place[section] != UNPLACED;
    if (!loaded || y->st_value > o->sections[section].sh_size)
        return fail(o, "symbol %u lies in no section that is loaded", symbol);
    *place = o->place[section] + y->st_value;
    return true;
}

/* Offset of a symbol in the image, whichever part has it; of an outside one, of its stub. */
static bool symbol_place(const struct object *o, uint32_t symbol, uint64_t *place, bool *is_stub)
{
    if (symbol >= o->n_symbols) return fail(o, "a relocation names symbol %u of %u", symbol, o->n_symbols);
    const Elf64_Sym *y = &o->symbols[symbol];
    *is_stub = false;
    if (y->st_shndx != SHN_UNDEF) return defined_place(o, symbol, place);
    const struct stub *stub = stub_of(o, symbol);
    if (stub) {
        *is_stub = true;
        *place = stub->place;
        return true;
    }
    uint32_t elsewhere;
    const struct object *part = part_with(o, symbol_name(o, y), &elsewhere);
    return part ? defined_place(part, elsewhere, place) : fail(o, "a relocation names nothing");
}

/* A relocation, everything but its type as addresses. */
struct fix {
    uint32_t type;
    unsigned char *to; /* what is to be changed */
    size_t room;       /* bytes from there to the end of the section */
    uint64_t at;       /* its address */
    uint64_t target;   /* what it is to name: address of the symbol and the addend */
    bool stub;         /* the symbol is an outside one */
};

static bool put(const struct fix *f, uint64_t value, size_t bytes)
{
    if (f->room < bytes) return false;
    memcpy(f->to, &value, bytes);
    return true;
}

static bool fits(int64_t value, int bits)
{
    int64_t beyond = (int64_t)1 << (bits - 1);
    return value >= -beyond && value < beyond;
}

static bool put_relative(const struct fix *f, int64_t relative, size_t bytes)
{
    return fits(relative, (int)bytes * 8) && put(f, (uint64_t)relative, bytes);
}

static bool fix_x86(const struct fix *f)
{
    int64_t relative = (int64_t)(f->target - f->at);
    int64_t stub_address = relative + STUB / 2; /* of the half that holds it */
    switch (f->type) {
    case R_X86_64_NONE: return true;
    case R_X86_64_64: return !f->stub && put(f, f->target, 8);
    case R_X86_64_PC64: return !f->stub && put(f, (uint64_t)relative, 8);
    case R_X86_64_PC32: return !f->stub && put_relative(f, relative, 4);
    case R_X86_64_PLT32: return put_relative(f, relative, 4);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: return f->stub && put_relative(f, stub_address, 4);
    default: return false;
    }
}

/* The instruction word, its bits outside of `keep` replaced. */
static bool fix_arm_word(const struct fix *f, uint32_t keep, uint32_t bits)
{
    uint32_t word;
    if (f->room < sizeof word) return false;
    memcpy(&word, f->to, sizeof word);
    return put(f, (word & keep) | bits, sizeof word);
}

static bool fix_arm_branch(const struct fix *f, int64_t relative)
{
    bool whole_words = !(relative & 3);
    uint32_t words = (uint32_t)(relative >> 2) & 0x03ffffff;
    return whole_words && fits(relative, 28) && fix_arm_word(f, 0xfc000000, words);
}

/* adr and adrp: 21 bits, the lowest two apart from the others. */
static bool fix_arm_adr(const struct fix *f, int64_t distance)
{
    uint32_t low = (uint32_t)distance & 3;
    uint32_t high = (uint32_t)(distance >> 2) & 0x7ffff;
    return fits(distance, 21) && fix_arm_word(f, 0x9f00001f, low << 29 | high << 5);
}

/* The lowest twelve bits of an address, counted in units of 2^shift bytes. */
static bool fix_arm_low(const struct fix *f, uint32_t shift)
{
    uint32_t low = (uint32_t)f->target & 4095;
    uint32_t unit = 1u << shift;
    return low % unit == 0 && fix_arm_word(f, 0xffc003ff, low >> shift << 10);
}

static int64_t pages_between(uint64_t from, uint64_t to)
{
    uint64_t in_page = 4095;
    return (int64_t)((to & ~in_page) - (from & ~in_page)) >> 12;
}

static bool fix_arm(const struct fix *f)
{
    int64_t relative = (int64_t)(f->target - f->at);
    bool is_branch = f->type == R_AARCH64_CALL26 || f->type == R_AARCH64_JUMP26;
    if (f->stub && !is_branch) return false;
    switch (f->type) {
    case R_AARCH64_NONE: return true;
    case R_AARCH64_ABS64: return put(f, f->target, 8);
    case R_AARCH64_PREL64: return put(f, (uint64_t)relative, 8);
    case R_AARCH64_PREL32: return put_relative(f, relative, 4);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: return fix_arm_branch(f, relative);
    case R_AARCH64_ADR_PREL_PG_HI21: return fix_arm_adr(f, pages_between(f->at, f->target));
    case R_AARCH64_ADR_PREL_LO21: return fix_arm_adr(f, relative);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return fix_arm_low(f, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return fix_arm_low(f, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return fix_arm_low(f, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return fix_arm_low(f, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return fix_arm_low(f, 4);
    default: return false;
    }
}

static bool relocate(const struct object *o, const Elf64_Rela *r, uint32_t section)
{
    uint64_t symbol_at;
    bool stub;
    uint64_t section_bytes = o->sections[section].sh_size;
    if (!symbol_place(o, ELF64_R_SYM(r->r_info), &symbol_at, &stub)) return false;
    if (r->r_offset > section_bytes) return fail(o, "a relocation lies outside of its section");
    uint64_t place = o->place[section] + r->r_offset;
    struct fix f = { .type = ELF64_R_TYPE(r->r_info),
                     .to = o->image + place,
                     .room = section_bytes - r->r_offset,
                     .at = o->address + place,
                     .target = o->address + symbol_at + (uint64_t)r->r_addend,
                     .stub = stub };
    bool done = o->machine == EM_X86_64 ? fix_x86(&f) : fix_arm(&f);
    return done || fail(o, "relocation type %u of machine %u cannot be done here", f.type, o->machine);
}

static bool relocate_section(const struct object *o, const Elf64_Shdr *relocations)
{
    uint32_t section = relocations->sh_info;
    if (section >= o->n_sections || relocations->sh_entsize != sizeof(Elf64_Rela) ||
        relocations->sh_offset % 8)
        return fail(o, "a relocation section is damaged");
    if (o->place[section] == UNPLACED) return true;
    const Elf64_Rela *list = (const Elf64_Rela *)(o->bytes + relocations->sh_offset);
    size_t n = relocations->sh_size / sizeof *list;
    for (size_t i = 0; i < n; i++)
        if (!relocate(o, &list[i], section)) return false;
    return true;
}

static bool find_entry(const struct object *o, uint64_t *place)
{
    uint32_t symbol;
    const struct object *part = part_with(o, ENTRY_NAME, &symbol);
    if (!part) return fail(o, "the object has no %s", ENTRY_NAME);
    if (!defined_place(part, symbol, place)) return false;
    bool is_code = part->sections[part->symbols[symbol].st_shndx].sh_flags & SHF_EXECINSTR;
    return is_code || fail(o, "the entry is not code");
}

static bool fill_part(const struct object *o)
{
    for (uint32_t i = 0; i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        if (o->place[i] != UNPLACED) memcpy(o->image + o->place[i], o->bytes + s->sh_offset, s->sh_size);
    }
    for (uint32_t k = 0; k < o->n_stubs; k++) write_stub(o, &o->stubs[k]);
    for (uint32_t i = 0; i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        if (s->sh_type == SHT_REL) return fail(o, "relocations without addends are not known here");
        if (s->sh_type == SHT_RELA && !relocate_section(o, s)) return false;
    }
    return true;
}

/* ---- programs ---- */

struct program {
    struct object parts[OBJECT_MOST_PARTS];
    uint32_t n;
    size_t used;
};

/* The parts of what comes in, which may be a single object. */
static bool find_parts(struct program *p, const unsigned char *bytes, size_t n, uint32_t machine, char *error)
{
    struct object_parts head;
    struct object *first = &p->parts[0];
    *first = (struct object){ .bytes = bytes, .n = n, .machine = machine, .error = error };
    p->n = 1;
    if (n >= sizeof head) memcpy(&head, bytes, sizeof head);
    bool several = n >= sizeof head && head.magic == OBJECT_PARTS_MAGIC;
    size_t at = sizeof head;
    if (several && (!head.n || head.n > OBJECT_MOST_PARTS))
        return fail(first, "the program has %llu parts, at most %d are loaded", (unsigned long long)head.n,
                    OBJECT_MOST_PARTS);
    if (several) p->n = (uint32_t)head.n;
    for (uint32_t k = 0; several && k < p->n; k++) {
        bool fits = at <= n && head.bytes[k] <= n - at;
        if (!fits) return fail(first, "part %u reaches past the end", k);
        p->parts[k] = (struct object){
            .bytes = bytes + at, .n = head.bytes[k], .machine = machine, .error = error
        };
        at += align_up(head.bytes[k], 8);
    }
    for (uint32_t k = 0; k < p->n; k++) {
        p->parts[k].parts = p->parts;
        p->parts[k].n_parts = p->n;
    }
    return true;
}

static bool open_program(struct program *p, const void *bytes, size_t n, uint32_t machine, struct loaded *out,
                         char *error)
{
    *out = (struct loaded){ 0 };
    if (!find_parts(p, bytes, n, machine, error)) return false;
    p->used = 0;
    for (uint32_t k = 0; k < p->n; k++)
        if (!read_header(&p->parts[k]) || !read_symbols(&p->parts[k])) return false;
    for (uint32_t k = 0; k < p->n; k++) {
        p->parts[k].used = p->used;
        if (!place_sections(&p->parts[k], out) || !place_stubs(&p->parts[k])) return false;
        p->used = p->parts[k].used;
    }
    return true;
}

static bool fill_program(struct program *p, unsigned char *image, uint64_t address, struct loaded *out)
{
    uint64_t entry;
    for (uint32_t k = 0; k < p->n; k++) {
        p->parts[k].image = image;
        p->parts[k].address = address;
    }
    for (uint32_t k = 0; k < p->n; k++)
        if (!fill_part(&p->parts[k])) return false;
    if (!find_entry(&p->parts[0], &entry)) return false;
    out->entry = (int32_t (*)(void *, void **, int64_t *))(uintptr_t)(address + entry);
    return true;
}

int object_place(const void *object, size_t bytes, uint32_t machine, unsigned char *image, size_t room,
                 uint64_t address, size_t *used, struct loaded *out, char error[512])
{
    struct program p;
    if (!open_program(&p, object, bytes, machine, out, error)) return EMIT_FAILED;
    *used = p.used;
    if (p.used > room) {
        fail(&p.parts[0], "the object needs %zu bytes, given %zu", p.used, room);
        return EMIT_FAILED;
    }
    return fill_program(&p, image, address, out) ? EMIT_OK : EMIT_FAILED;
}

/* The mapping becomes code that can be run. */
static int make_executable(const struct object *o, const struct loaded *l)
{
    char *map = l->map;
    if (mprotect(map, l->bytes, PROT_READ | PROT_EXEC)) {
        int status = errno == ENOMEM ? EMIT_NOMEM : EMIT_FAILED;
        fail(o, "this system does not let memory become executable");
        return status;
    }
    __builtin___clear_cache(map, map + l->bytes);
    return EMIT_OK;
}

int object_load(const void *object, size_t bytes, struct loaded *out, char error[512])
{
    struct program p;
    struct object *first = &p.parts[0];
    first->error = error;
    if (HOST_MACHINE == EM_NONE) {
        fail(first, "code for this machine cannot be loaded");
        return EMIT_FAILED;
    }
    if (!open_program(&p, object, bytes, HOST_MACHINE, out, error)) return EMIT_FAILED;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = align_up(p.used + 1, page);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        fail(first, "no memory for %zu bytes of code", size);
        return EMIT_NOMEM;
    }
    out->map = map;
    out->bytes = size;
    bool filled = fill_program(&p, map, (uint64_t)(uintptr_t)map, out);
    int status = filled ? make_executable(first, out) : EMIT_FAILED;
    if (status) object_unload(out);
    return status;
}

void object_unload(struct loaded *l)
{
    if (l->map) munmap(l->map, l->bytes);
    *l = (struct loaded){ 0 };
}
