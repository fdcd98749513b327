import LanyardFoundations
import Testing

@testable import LanyardVault

/// When a file's stamp tells its bytes.
@Suite struct DiskVersionTests {
    @Test("a stamp finer than a millisecond counts after two of the kernel's ticks, a coarse one after a second")
    func steps() {
        let fine = DiskEntry.Version(inode: 1, writtenAt: WallTime(nanoseconds: 1_700_000_000_123_456_789))
        #expect(!fine.isPast(at: fine.writtenAt))
        #expect(!fine.isPast(at: fine.writtenAt + .milliseconds(20)))
        #expect(fine.isPast(at: fine.writtenAt + .milliseconds(21)))
        for nanoseconds in [Int64(1_700_000_000_000_000_000), 1_700_000_000_120_000_000] {
            let coarse = DiskEntry.Version(inode: 1, writtenAt: WallTime(nanoseconds: nanoseconds))
            #expect(!coarse.isPast(at: coarse.writtenAt + .seconds(1)))
            #expect(coarse.isPast(at: coarse.writtenAt + .milliseconds(1001)))
        }
    }

    @Test("a clock that was set back makes no stamp count")
    func setBack() {
        let version = DiskEntry.Version(inode: 1, writtenAt: WallTime(nanoseconds: 1_700_000_000_123_456_789))
        #expect(!version.isPast(at: version.writtenAt + .seconds(-3600)))
    }
}
