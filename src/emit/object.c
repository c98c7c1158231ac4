/* The loader of objects: a relocatable ELF object that the back end made, or that the cache kept, comes in;
 * code in this process goes out. The sections that are loaded are laid out one after the other in one
 * mapping, places of outside functions behind them, relocations are applied, and the mapping becomes
 * executable and read-only. Everything is checked against the object's bounds: what is not understood is an
 * error, never a guess. */
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
    { "ceil", (void *)(double (*)(double))ceil },
    { "ceilf", (void *)(float (*)(float))ceilf },
    { "trunc", (void *)(double (*)(double))trunc },
    { "truncf", (void *)(float (*)(float))truncf },
    { "rint", (void *)(double (*)(double))rint },
    { "rintf", (void *)(float (*)(float))rintf },
    { "fmod", (void *)(double (*)(double, double))fmod },
    { "fmodf", (void *)(float (*)(float, float))fmodf },
    { "sqrt", (void *)(double (*)(double))sqrt },
    { "sqrtf", (void *)(float (*)(float))sqrtf },
};

enum { MAX_SECTIONS = 512, MAX_OUTSIDE = 32, STUB = 16 };
struct object {
    const unsigned char *bytes;
    size_t n;
    const Elf64_Shdr *sections;
    uint32_t n_sections;
    const Elf64_Sym *symbols;
    uint32_t n_symbols;
    const char *names; /* of symbols */
    size_t n_names;
    uint64_t place[MAX_SECTIONS]; /* offset in the mapping, UNPLACED: not loaded */
    struct {
        uint32_t symbol;
        uint64_t place;
        void *address;
    } stubs[MAX_OUTSIDE];
    uint32_t n_stubs;
    unsigned char *image;
    uint64_t address; /* where the image will run */
    size_t used;
    uint32_t machine;
    char *error;
};
static const uint64_t UNPLACED = UINT64_MAX;

#define FAIL(o, ...) (snprintf((o)->error, 512, __VA_ARGS__), false)

static bool inside(const struct object *o, uint64_t at, uint64_t bytes)
{
    return at <= o->n && bytes <= o->n - at;
}

static bool read_header(struct object *o)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)o->bytes;
    if (o->n < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_type != ET_REL)
        return FAIL(o, "not a relocatable 64-bit ELF object");
    if (h->e_machine != o->machine)
        return FAIL(o, "the object is for machine %u, this is %u", h->e_machine, o->machine);
    if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff % 8 ||
        !inside(o, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
        return FAIL(o, "the section table is damaged");
    if (!h->e_shnum || h->e_shnum > MAX_SECTIONS)
        return FAIL(o, "the object has %u sections, at most %d are loaded", h->e_shnum, MAX_SECTIONS);
    o->sections = (const Elf64_Shdr *)(o->bytes + h->e_shoff);
    o->n_sections = h->e_shnum;
    for (uint32_t i = 0; i < o->n_sections; i++)
        if (o->sections[i].sh_type != SHT_NOBITS &&
            !inside(o, o->sections[i].sh_offset, o->sections[i].sh_size))
            return FAIL(o, "section %u reaches past the end", i);
    return true;
}

static bool read_symbols(struct object *o)
{
    for (uint32_t i = 0; i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        if (s->sh_type != SHT_SYMTAB) continue;
        if (o->symbols || s->sh_entsize != sizeof(Elf64_Sym) || s->sh_offset % 8 ||
            s->sh_link >= o->n_sections)
            return FAIL(o, "the symbol table is damaged");
        const Elf64_Shdr *names = &o->sections[s->sh_link];
        if (names->sh_type != SHT_STRTAB || !names->sh_size ||
            o->bytes[names->sh_offset + names->sh_size - 1])
            return FAIL(o, "the names of symbols are damaged");
        o->symbols = (const Elf64_Sym *)(o->bytes + s->sh_offset);
        o->n_symbols = (uint32_t)(s->sh_size / sizeof(Elf64_Sym));
        o->names = (const char *)o->bytes + names->sh_offset;
        o->n_names = names->sh_size;
    }
    if (!o->symbols) return FAIL(o, "the object has no symbols");
    for (uint32_t i = 0; i < o->n_symbols; i++)
        if (o->symbols[i].st_name >= o->n_names) return FAIL(o, "the name of symbol %u is damaged", i);
    return true;
}

/* Unwinding tables are of no use: nothing is thrown through native code. */
static bool is_loaded(const Elf64_Shdr *s)
{
    return s->sh_flags & SHF_ALLOC && s->sh_type == SHT_PROGBITS && s->sh_size;
}
static bool is_unwinding(const struct object *o, const Elf64_Shdr *s)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)o->bytes;
    if (h->e_shstrndx >= o->n_sections) return false;
    const Elf64_Shdr *names = &o->sections[h->e_shstrndx];
    static const char unwinding[] = ".eh_frame";
    return names->sh_type == SHT_STRTAB && s->sh_name < names->sh_size &&
           names->sh_size - s->sh_name >= sizeof unwinding &&
           !memcmp(o->bytes + names->sh_offset + s->sh_name, unwinding, sizeof unwinding);
}

static bool place_sections(struct object *o, struct loaded *out)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        o->place[i] = UNPLACED;
        if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size || s->sh_type == SHT_NOTE ||
            s->sh_type == SHT_X86_64_UNWIND || is_unwinding(o, s))
            continue;
        if (!is_loaded(s) || s->sh_flags & (SHF_WRITE | SHF_TLS))
            return FAIL(o, "section %u has type %u and flags %llu, which code has no use for", i, s->sh_type,
                        (unsigned long long)s->sh_flags);
        uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
        if (align & (align - 1) || align > 4096)
            return FAIL(o, "section %u is aligned to %llu", i, (unsigned long long)align);
        at = (at + align - 1) & ~(align - 1);
        o->place[i] = at;
        at += s->sh_size;
        if (at > INT32_MAX / 2) return FAIL(o, "the object is larger than 1 GiB");
        if (s->sh_flags & SHF_EXECINSTR) out->code_bytes += s->sh_size;
    }
    at = (at + STUB - 1) & ~(uint64_t)(STUB - 1);
    for (uint32_t i = 1; i < o->n_symbols; i++) {
        const Elf64_Sym *y = &o->symbols[i];
        const char *name = o->names + y->st_name;
        if (y->st_shndx != SHN_UNDEF || !*name) continue;
        void *address = NULL;
        for (size_t k = 0; k < HOP_COUNT(outside); k++)
            if (!strcmp(outside[k].name, name)) address = outside[k].address;
        if (!address || o->n_stubs == MAX_OUTSIDE)
            return FAIL(o, "the object needs '%.200s', which it is not given", name);
        o->stubs[o->n_stubs].symbol = i;
        o->stubs[o->n_stubs].place = at;
        o->stubs[o->n_stubs++].address = address;
        at += STUB;
    }
    o->used = at;
    return true;
}

/* A stub jumps to the address in its second half, which also serves where the code wants a place that holds
 * an address. */
static void write_stub(const struct object *o, uint32_t k)
{
    static const unsigned char x86[8] = { 0xff, 0x25, 2, 0, 0, 0, 0x0f, 0x0b };    /* jmp *2(%rip); ud2 */
    static const unsigned char arm[8] = { 0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6 }; /* ldr x16, .+8; br x16 */
    unsigned char *to = o->image + o->stubs[k].place;
    uint64_t address = (uint64_t)(uintptr_t)o->stubs[k].address;
    memcpy(to, o->machine == EM_X86_64 ? x86 : arm, 8);
    memcpy(to + 8, &address, 8);
}

/* Offset of a symbol in the image; of an outside one, of its stub. */
static bool symbol_place(const struct object *o, uint32_t symbol, uint64_t *place, bool *stub)
{
    *stub = false;
    if (symbol >= o->n_symbols)
        return FAIL((struct object *)o, "a relocation names symbol %u of %u", symbol, o->n_symbols);
    const Elf64_Sym *y = &o->symbols[symbol];
    if (y->st_shndx == SHN_UNDEF) {
        *stub = true;
        for (uint32_t k = 0; k < o->n_stubs; k++)
            if (o->stubs[k].symbol == symbol) return *place = o->stubs[k].place, true;
        return FAIL((struct object *)o, "a relocation names nothing");
    }
    if (y->st_shndx >= o->n_sections || o->place[y->st_shndx] == UNPLACED ||
        y->st_value > o->sections[y->st_shndx].sh_size)
        return FAIL((struct object *)o, "symbol %u lies in no section that is loaded", symbol);
    *place = o->place[y->st_shndx] + y->st_value;
    return true;
}

struct fix {
    uint32_t type;
    unsigned char *to; /* what is to be changed */
    size_t room;       /* bytes from there to the end of the section */
    uint64_t at;       /* its address */
    uint64_t target;   /* address of the symbol */
    int64_t addend;
    bool stub;
};

static bool put(unsigned char *to, size_t room, uint64_t value, size_t bytes)
{
    return room >= bytes && (memcpy(to, &value, bytes), true);
}
static bool fits(int64_t value, int bits)
{
    return value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1);
}

static bool fix_x86(const struct fix *f)
{
    int64_t relative = (int64_t)(f->target + (uint64_t)f->addend - f->at);
    switch (f->type) {
    case R_X86_64_NONE: return true;
    case R_X86_64_64: return !f->stub && put(f->to, f->room, f->target + (uint64_t)f->addend, 8);
    case R_X86_64_PC64: return !f->stub && put(f->to, f->room, (uint64_t)relative, 8);
    case R_X86_64_PC32: return !f->stub && fits(relative, 32) && put(f->to, f->room, (uint64_t)relative, 4);
    case R_X86_64_PLT32: return fits(relative, 32) && put(f->to, f->room, (uint64_t)relative, 4);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        return f->stub && fits(relative + 8, 32) &&
               put(f->to, f->room, (uint64_t)(relative + 8), 4); /* the stub's address half */
    default: return false;
    }
}

static bool fix_arm_word(const struct fix *f, uint32_t keep, uint32_t bits)
{
    uint32_t word;
    if (f->room < 4) return false;
    memcpy(&word, f->to, 4);
    return put(f->to, f->room, (word & keep) | bits, 4);
}

static bool fix_arm(const struct fix *f)
{
    uint64_t target = f->target + (uint64_t)f->addend;
    int64_t relative = (int64_t)(target - f->at),
            pages = (int64_t)((target & ~4095ull) - (f->at & ~4095ull)) >> 12;
    uint32_t low = (uint32_t)target & 4095, shift = 0;
    if (f->stub && f->type != R_AARCH64_CALL26 && f->type != R_AARCH64_JUMP26) return false;
    switch (f->type) {
    case R_AARCH64_NONE: return true;
    case R_AARCH64_ABS64: return put(f->to, f->room, target, 8);
    case R_AARCH64_PREL64: return put(f->to, f->room, (uint64_t)relative, 8);
    case R_AARCH64_PREL32: return fits(relative, 32) && put(f->to, f->room, (uint64_t)relative, 4);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
        return !(relative & 3) && fits(relative, 28) &&
               fix_arm_word(f, 0xfc000000, (uint32_t)(relative >> 2) & 0x03ffffff);
    case R_AARCH64_ADR_PREL_PG_HI21:
        return fits(pages, 21) &&
               fix_arm_word(f, 0x9f00001f,
                            ((uint32_t)pages & 3) << 29 | ((uint32_t)(pages >> 2) & 0x7ffff) << 5);
    case R_AARCH64_ADR_PREL_LO21:
        return fits(relative, 21) &&
               fix_arm_word(f, 0x9f00001f,
                            ((uint32_t)relative & 3) << 29 | ((uint32_t)(relative >> 2) & 0x7ffff) << 5);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return fix_arm_word(f, 0xffc003ff, low << 10);
    case R_AARCH64_LDST128_ABS_LO12_NC: shift++; /* fall through */
    case R_AARCH64_LDST64_ABS_LO12_NC: shift++;  /* fall through */
    case R_AARCH64_LDST32_ABS_LO12_NC: shift++;  /* fall through */
    case R_AARCH64_LDST16_ABS_LO12_NC:
        shift++;
        return !(low & ((1u << shift) - 1)) && fix_arm_word(f, 0xffc003ff, low >> shift << 10);
    default: return false;
    }
}

static bool relocate_section(struct object *o, const Elf64_Shdr *relocations)
{
    uint32_t target = relocations->sh_info;
    if (target >= o->n_sections || relocations->sh_entsize != sizeof(Elf64_Rela) ||
        relocations->sh_offset % 8)
        return FAIL(o, "a relocation section is damaged");
    if (o->place[target] == UNPLACED) return true;
    const Elf64_Rela *r = (const Elf64_Rela *)(o->bytes + relocations->sh_offset);
    for (size_t i = 0; i < relocations->sh_size / sizeof *r; i++) {
        uint64_t place;
        struct fix f = { .type = ELF64_R_TYPE(r[i].r_info), .addend = r[i].r_addend };
        if (!symbol_place(o, ELF64_R_SYM(r[i].r_info), &place, &f.stub)) return false;
        if (r[i].r_offset > o->sections[target].sh_size)
            return FAIL(o, "a relocation lies outside of its section");
        f.room = o->sections[target].sh_size - r[i].r_offset;
        f.to = o->image + o->place[target] + r[i].r_offset;
        f.at = o->address + o->place[target] + r[i].r_offset;
        f.target = o->address + place;
        if (!(o->machine == EM_X86_64 ? fix_x86 : fix_arm)(&f))
            return FAIL(o, "relocation type %u of machine %u cannot be done here", f.type, o->machine);
    }
    return true;
}

static bool find_entry(struct object *o, uint64_t *place)
{
    bool stub;
    for (uint32_t i = 1; i < o->n_symbols; i++) {
        const Elf64_Sym *y = &o->symbols[i];
        if (strcmp(o->names + y->st_name, ENTRY_NAME) || y->st_shndx == SHN_UNDEF) continue;
        if (!symbol_place(o, i, place, &stub)) return false;
        return o->sections[y->st_shndx].sh_flags & SHF_EXECINSTR ? true : FAIL(o, "the entry is not code");
    }
    return FAIL(o, "the object has no %s", ENTRY_NAME);
}

static bool fill_image(struct object *o, struct loaded *out)
{
    uint64_t entry;
    for (uint32_t i = 0; i < o->n_sections; i++)
        if (o->place[i] != UNPLACED)
            memcpy(o->image + o->place[i], o->bytes + o->sections[i].sh_offset, o->sections[i].sh_size);
    for (uint32_t k = 0; k < o->n_stubs; k++) write_stub(o, k);
    for (uint32_t i = 0; i < o->n_sections; i++) {
        if (o->sections[i].sh_type == SHT_REL)
            return FAIL(o, "relocations without addends are not known here");
        if (o->sections[i].sh_type == SHT_RELA && !relocate_section(o, &o->sections[i])) return false;
    }
    if (!find_entry(o, &entry)) return false;
    out->entry = (int32_t (*)(void *, void **, int64_t *))(uintptr_t)(o->address + entry);
    return true;
}

static bool open_object(struct object *o, struct loaded *out)
{
    *out = (struct loaded){ 0 };
    return read_header(o) && read_symbols(o) && place_sections(o, out);
}

int object_place(const void *object, size_t bytes, uint32_t machine, unsigned char *image, size_t room,
                 uint64_t address, size_t *used, struct loaded *out, char error[512])
{
    struct object o = {
        .bytes = object, .n = bytes, .machine = machine, .image = image, .address = address, .error = error
    };
    if (!open_object(&o, out)) return 1;
    *used = o.used;
    if (o.used > room) return !FAIL(&o, "the object needs %zu bytes, given %zu", o.used, room);
    return !fill_image(&o, out);
}

int object_load(const void *object, size_t bytes, struct loaded *out, char error[512])
{
    struct object o = { .bytes = object, .n = bytes, .machine = HOST_MACHINE, .error = error };
    if (HOST_MACHINE == EM_NONE) return !FAIL(&o, "code for this machine cannot be loaded");
    if (!open_object(&o, out)) return 1;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (o.used + page) & ~(page - 1);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        snprintf(error, 512, "no memory for %zu bytes of code", size);
        return EMIT_NOMEM;
    }
    o.image = map;
    o.address = (uint64_t)(uintptr_t)map;
    out->map = map;
    out->bytes = size;
    int status = fill_image(&o, out) ? EMIT_OK : EMIT_FAILED;
    if (!status && mprotect(map, size, PROT_READ | PROT_EXEC)) {
        status = errno == ENOMEM ? EMIT_NOMEM : EMIT_FAILED;
        snprintf(error, 512, "this system does not let memory become executable");
    }
    if (status) {
        object_unload(out);
        return status;
    }
    __builtin___clear_cache((char *)map, (char *)map + size);
    return 0;
}

void object_unload(struct loaded *l)
{
    if (l->map) munmap(l->map, l->bytes);
    *l = (struct loaded){ 0 };
}
