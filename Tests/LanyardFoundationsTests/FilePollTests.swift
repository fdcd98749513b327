import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations

/// How often files are read where their changes are not noticed, and what is decided without a file system.
@Suite struct FilePollTests {
    @Test("reads of all files are at most 500 in a second, and 50 at once")
    func pace() {
        var pace = ReadPace()
        let start = Instant(nanoseconds: 1_000_000_000_000)
        let slots = (0..<10_000).map { _ in pace.slot(at: start) }
        #expect(slots.count { $0 == start } == 51)
        #expect(slots == slots.sorted())
        for second in 0..<19 {
            let from = start + .seconds(second)
            #expect(slots.count { $0 > from && $0 <= from + .seconds(1) } <= ReadPace.perSecond)
        }
        #expect(slots.last! <= start + .seconds(20))
        // After a pause reads come at once again.
        #expect(pace.slot(at: start + .seconds(60)) == start + .seconds(60))
    }

    @Test(
        "a file is read every 2 s, and less often if there are more than 1000",
        arguments: [(1, 2.0), (1000, 2.0), (1500, 3.0), (10_000, 20.0)])
    func interval(_ count: Int, _ seconds: Double) {
        #expect(FileChangeMonitor.interval(polledCount: count) == .seconds(seconds))
    }

    @Test("slow checks look at each file once a minute", arguments: [0, 1, 64, 65, 1000, 10_000, 30_000])
    func slowChecks(_ count: Int) {
        let (delay, files) = (SlowChecks.delay(fileCount: count), SlowChecks.filesPerCall(fileCount: count))
        #expect(delay >= .seconds(5) && delay <= SlowChecks.period)
        #expect(Double(files) * (SlowChecks.period / delay) >= Double(count))
        #expect(Double(files) <= Double(ReadPace.perSecond) * delay.inSeconds)
    }

    #if DEBUG
    @Test("watches of one file are read together, and those of many files spread over their interval")
    func polls() throws {
        let reads = Guarded<[Int64]>([])
        let files = FileReader { path, _ in
            FileSnapshot(stamp: nil, outcome: .failure(.system(ENOENT)))
        }
        let loop = try EventLoop(label: "test.polls")
        loop.start()
        loop.freezeTime()
        defer { loop.stop() }
        let start = loop.perform { Instant.now }
        let watches = (0..<1500).map { number in
            FileWatch(
                "/none/\(number)", by: files, on: loop,
                confirm: { _ in
                    let now = Instant.now
                    reads.withLock { $0.append((now - start).nanoseconds) }
                }
            ) { _ in }
        }
        for watch in watches { watch.start() }
        defer { for watch in watches { watch.stop() } }
        loop.pass(.seconds(3))
        reads.withLock { $0 = [] }
        loop.pass(.seconds(6))
        let times = reads.withLock { $0 }
        for second in 3..<9 {
            let count = times.count { $0 / 1_000_000_000 == Int64(second) }
            #expect(count <= ReadPace.perSecond + 51 && count >= ReadPace.perSecond / 2, "\(second): \(count)")
        }
    }
    #endif

    @Test("file systems that other machines write to are named, and local ones are noticed")
    func fileSystems() {
        for type: Int64 in [0xef53, 0x0102_1994, 0x794c_7630] { #expect(FileSystemType.reportsChanges(type)) }
        for type: Int64 in [0x6969, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x9fa0, -1, 0x1234] {
            #expect(!FileSystemType.reportsChanges(type))
        }
        #expect(FileNoticeError.fileSystem(0x6969).message.hasSuffix("(NFS)"))
        #expect(FileNoticeError.fileSystem(0x1234).message.hasSuffix("(type 0x1234)"))
    }

    @Test("a small set has each element once", arguments: [1, 2, 3, 100])
    func smallSet(_ count: Int) {
        var set = SmallSet<Int>()
        for _ in 0..<2 { for number in 0..<count { set.insert(number) } }
        var found: Set<Int> = []
        set.forEach { found.insert($0) }
        #expect(set.count == count && found == Set(0..<count))
        set.remove(-1)
        for number in 0..<count { set.remove(number) }
        #expect(set.isEmpty)
        set.remove(1)
        #expect(set.isEmpty)
    }
}
