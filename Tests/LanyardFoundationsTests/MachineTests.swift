import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations

@Suite struct MachineTests {
    @Test(
        "a block of 256 KiB is mapped by itself although a larger one was freed before",
        .enabled(if: !Sanitizer.isOn, "a sanitizer has an allocator of its own"))
    func largeBlocks() {
        Machine.returnLargeBlocks()
        // By glibc's own rule the first block that is freed raises the size from which blocks are mapped.
        free(malloc(8 << 20))
        let blocks = (0..<64).map { _ in malloc(256 << 10) }
        // A block that is mapped by itself begins behind a header of 16 bytes at the start of a page.
        // Some may lie in gaps that other tests have left in the heaps.
        let mapped = blocks.count { UInt(bitPattern: $0) % 4096 == 16 }
        for block in blocks { free(block) }
        #expect(mapped > 32)
    }
}
