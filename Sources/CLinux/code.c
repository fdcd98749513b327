#define _GNU_SOURCE
#include "CLinux.h"

/* A file of its own, because <resolv.h> in linux.c has macros with the names of these members. */
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

/* Called for the program and each of its libraries. */
static int return_code_of(struct dl_phdr_info *object, size_t size, void *unused) {
    (void)size;
    (void)unused;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int index = 0; index < object->dlpi_phnum; index++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[index];
        /* Not those that are written to: what the loader wrote would be lost. */
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || (segment->p_flags & PF_W)) continue;
        uintptr_t start = (object->dlpi_addr + segment->p_vaddr + page - 1) & ~(page - 1);
        uintptr_t end = (object->dlpi_addr + segment->p_vaddr + segment->p_filesz) & ~(page - 1);
        if (start < end) madvise((void *)start, end - start, MADV_DONTNEED);
    }
    return 0;
}

void lanyard_return_code(void) { dl_iterate_phdr(return_code_of, NULL); }
