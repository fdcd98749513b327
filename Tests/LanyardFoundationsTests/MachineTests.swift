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
        // A block that is mapped by itself begins behind a header of 16 bytes at the start of a page. The first ones may lie in gaps that
        // other tests have left in the heaps; without the rule a heap grows and no block is mapped.
        var blocks: [UnsafeMutableRawPointer?] = []
        var mapped = 0
        while mapped < 32, blocks.count < 2000 {
            blocks.append(malloc(256 << 10))
            if UInt(bitPattern: blocks.last!) % 4096 == 16 { mapped += 1 }
        }
        for block in blocks { free(block) }
        #expect(mapped == 32)
    }
}
