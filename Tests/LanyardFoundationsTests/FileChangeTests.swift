import Dispatch
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations

/// Changes of files that inotify reports, in real folders and real time.
@Suite struct FileChangeTests {
    private typealias Bench = FileChangeBench

    /// Replaces a file by renaming another one to it.
    private static func replace(_ path: String, by text: String) throws {
        let file = try #require(fopen(path + ".new", "w"))
        fputs(text, file)
        fclose(file)
        #expect(rename(path + ".new", path) == 0)
    }

    @Test("a file that is renamed, written in place, deleted and made again is told each time")
    func oneFile() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "one")
        let bench = try Bench([path])
        try await bench.expect("one", of: path)
        try Self.replace(path, by: "two")
        try await bench.expect("two", of: path)
        let writer = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
        write(writer, "three", 5)
        try await bench.expect("three", of: path)
        // The same process writes on without closing it.
        write(writer, "+", 1)
        try await bench.expect("three+", of: path)
        close(writer)
        unlink(path)
        try await bench.expect("system(2)", of: path)
        try folder.write("secret", "four")
        try await bench.expect("four", of: path)
    }

    @Test("a file that may not be read any more is told, and that it may again", .enabled(if: getuid() != 0))
    func permission() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "one")
        let bench = try Bench([path])
        try await bench.expect("one", of: path)
        chmod(path, 0)
        try await bench.expect("system(13)", of: path)
        chmod(path, 0o600)
        try await bench.expect("one", of: path)
        // A folder that may not be listed cannot be watched, and can be when it may again.
        let inner = folder.file("inner/secret")
        mkdir(folder.file("inner"), 0)
        bench.watch(inner)
        try await bench.expect("system(13)", of: inner)
        #expect(bench.monitor.polledCount == 1)
        chmod(folder.file("inner"), 0o700)
        try folder.write("inner/secret", "inner")
        try await bench.expect("inner", of: inner)
        #expect(bench.monitor.polledCount == 0)
    }

    @Test("a swap of ..data, as Kubernetes does it, is told each time")
    func swaps() async throws {
        let folder = try TemporaryFolder()
        symlink("..data/token", folder.file("token"))
        let bench = try Bench([folder.file("token")])
        try await bench.expect("system(2)", of: folder.file("token"))
        for number in 1...4 {
            mkdir(folder.file("v\(number)"), 0o700)
            try folder.write("v\(number)/token", "token \(number)")
            symlink("v\(number)", folder.file("..next"))
            rename(folder.file("..next"), folder.file("..data"))
            try await bench.expect("token \(number)", of: folder.file("token"))
            unlink(folder.file("v\(number - 1)/token"))
            rmdir(folder.file("v\(number - 1)"))
        }
        // A change in the folder that the link leads to now.
        try Self.replace(folder.file("v4/token"), by: "token 5")
        try await bench.expect("token 5", of: folder.file("token"))
    }

    @Test("a chain of absolute and relative links with .. in it is followed, wherever it changes")
    func chain() async throws {
        let folder = try TemporaryFolder()
        for name in ["a", "b", "b/c"] { mkdir(folder.file(name), 0o700) }
        try folder.write("b/c/first", "first")
        try folder.write("b/c/second", "second")
        symlink(folder.file("b/link"), folder.file("a/link"))
        symlink("c/../../b/./c/chosen", folder.file("b/link"))
        symlink("first", folder.file("b/c/chosen"))
        let path = folder.file("a/../a/link")
        let bench = try Bench([path])
        try await bench.expect("first", of: path)
        symlink("second", folder.file("b/c/chosen.new"))
        rename(folder.file("b/c/chosen.new"), folder.file("b/c/chosen"))
        try await bench.expect("second", of: path)
        unlink(folder.file("b/link"))
        try await bench.expect("system(2)", of: path)
        try folder.write("b/link", "a file")
        try await bench.expect("a file", of: path)
        try folder.write("third", "third")
        symlink("../third", folder.file("a/new"))
        rename(folder.file("a/new"), folder.file("a/link"))
        try await bench.expect("third", of: path)
        // A loop of links ends the walk, and the way out of it is noticed.
        symlink("link", folder.file("a/new"))
        rename(folder.file("a/new"), folder.file("a/link"))
        try await bench.expect("system(40)", of: path)
        unlink(folder.file("a/link"))
        try folder.write("a/link", "end")
        try await bench.expect("end", of: path)
    }

    @Test("folders that do not exist yet, that are renamed, and that are deleted and made again are followed")
    func folders() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("one/two/three/secret")
        let bench = try Bench([path])
        try await bench.expect("system(2)", of: path)
        for round in 1...3 {
            for name in ["one", "one/two", "one/two/three"] { mkdir(folder.file(name), 0o700) }
            try folder.write("one/two/three/secret", "round \(round)")
            try await bench.expect("round \(round)", of: path)
            try Self.replace(path, by: "again \(round)")
            try await bench.expect("again \(round)", of: path)
            // A folder in the middle is moved away, and the whole tree is deleted behind it.
            rename(folder.file("one/two"), folder.file("moved"))
            try await bench.expect("system(2)", of: path)
            rename(folder.file("moved"), folder.file("one/two"))
            try await bench.expect("again \(round)", of: path)
            unlink(path)
            for name in ["one/two/three", "one/two", "one"] { rmdir(folder.file(name)) }
            try await bench.expect("system(2)", of: path)
        }
        // A file in place of a folder.
        try folder.write("one", "no folder")
        try await bench.expect("system(20)", of: path)
    }

    @Test("a change that comes while the file is read is not lost", arguments: 0..<8)
    func duringRead(_ seed: Int) async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "first")
        let bench = try Bench([path])
        for number in 0..<40 {
            if number % 8 == seed { try await eventually("it is read") { bench.reads.value > number / 8 } }
            try Self.replace(path, by: "content \(number)")
        }
        try await bench.expect("content 39", of: path)
    }

    @Test(
        "a change right behind a read is not lost, also where the loop's clock is ahead of the machine's",
        arguments: [false, true])
    func behindRead(isAhead: Bool) async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "0")
        let changes = Tally()
        // Each read is the cause of the next change, which comes while the one before is a few milliseconds old.
        let bench = try Bench([path]) { found in
            guard found.outcome != nil, changes.value < 20 else { return }
            changes.add()
            try? Self.replace(path, by: "\(changes.value)")
        }
        if isAhead { bench.loop.pass(.seconds(30)) }
        try await bench.expect("20", of: path)
    }

    @Test("files of one folder share its watch, and names of other files in it lead to no read")
    func sharedFolder() async throws {
        let folder = try TemporaryFolder()
        let paths = try (0..<50).map { try folder.write("secret\($0)", "\($0)") }
        let bench = try Bench(paths)
        for (number, path) in paths.enumerated() { try await bench.expect("\(number)", of: path) }
        // Those of the temporary folder and above.
        let folders = folder.path.split(separator: "/").count + 1
        #expect(bench.monitor.folderCount == folders)
        let reads = bench.reads.value
        for number in 0..<50 { try folder.write("other\(number)", "x") }
        try Self.replace(paths[7], by: "new")
        try await bench.expect("new", of: paths[7])
        #expect(bench.reads.value - reads < 50)
        for path in paths { bench.stop(path) }
        bench.loop.perform {}
        #expect(bench.monitor.folderCount == 0)
    }

    @Test("a shared folder that is renamed leads to reads of all files below it")
    func renamedFolder() async throws {
        let folder = try TemporaryFolder()
        mkdir(folder.file("shared"), 0o700)
        let paths = try (0..<100).map { try folder.write("shared/secret\($0)", "\($0)") }
        let bench = try Bench(paths)
        for (number, path) in paths.enumerated() { try await bench.expect("\(number)", of: path) }
        rename(folder.file("shared"), folder.file("moved"))
        for path in paths { try await bench.expect("system(2)", of: path) }
        rename(folder.file("moved"), folder.file("shared"))
        for (number, path) in paths.enumerated() { try await bench.expect("\(number)", of: path) }
    }

    /// Files of one folder share the way to it.
    @Test(
        "files that come one after another while the way to their folder changes are all told what they hold",
        arguments: 0..<16)
    func changingWay(_ seed: UInt64) async throws {
        var random = SeededGenerator(seed)
        let folder = try TemporaryFolder()
        for name in ["a", "b", "a/in", "b/in"] { mkdir(folder.file(name), 0o700) }
        for tree in ["a", "b"] {
            for number in 0..<24 { try folder.write("\(tree)/in/f\(number)", "\(tree)\(number)") }
            symlink("f0", folder.file("\(tree)/in/link"))
        }
        symlink("a", folder.file("way"))
        let bench = try Bench()
        var paths: [String] = []
        for step in 0..<24 {
            paths.append(folder.file("way/in/\(step == 12 ? "link" : "f\(step)")"))
            bench.watch(paths[step])
            switch Int.random(in: 0..<6, using: &random) {
            case 0:
                symlink(Bool.random(using: &random) ? "a" : "b", folder.file("new"))
                rename(folder.file("new"), folder.file("way"))
            case 1:
                let tree = Bool.random(using: &random) ? "a" : "b"
                rename(folder.file("\(tree)/in"), folder.file("\(tree)/away"))
                // Its event may have been handled or not.
                if Bool.random(using: &random) { bench.loop.perform {} }
                rename(folder.file("\(tree)/away"), folder.file("\(tree)/in"))
            case 2: try Self.replace(folder.file("b/in/f\(step / 2)"), by: "step \(step)")
            case 3: bench.stop(paths[Int.random(in: 0...step, using: &random)])
            default: break
            }
        }
        for path in paths where bench.isWatched(path) {
            let content = try #require(FileSnapshot.read(path, known: nil).outcome).get()
            try await bench.expect(content.secret.withBytes { String(decoding: $0, as: UTF8.self) }, of: path)
        }
    }

    @Test("a login that has used another content leads to a read at once, and so does a call for one")
    func uses() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "right")
        let loop = try EventLoop(label: "test.changes")
        loop.start()
        defer { loop.stop() }
        let files = FileReader(noticing: FileChangeMonitor(on: loop))
        let (told, confirmed) = (Tally(), Tally())
        let watch = FileWatch(path, by: files, on: loop, confirm: { _ in confirmed.add() }, report: { _ in told.add() })
        watch.start()
        defer { watch.stop() }
        try await eventually("it is told and at rest") { told.value == 1 && confirmed.value >= 1 }
        files.noteUse(of: path, .failure(.delayed))
        try await eventually("it is told again") { told.value == 2 }
        let before = confirmed.value
        watch.readNow()
        try await eventually("it is read") { confirmed.value > before }
        #expect(told.value == 2)
    }

    #if DEBUG
    @Test("a change through another hard link is found by the slow check, and a file that is the same is not read")
    func hardLink() async throws {
        let (folder, other) = (try TemporaryFolder(), try TemporaryFolder())
        let path = try folder.write("secret", "one")
        #expect(link(path, other.file("same")) == 0)
        let bench = try Bench([path])
        try await bench.expect("one", of: path)
        // Until the stamp is a little old, the next write may leave it as it is.
        try await eventually("the stamp is old enough") {
            FileSnapshot.stamp(of: path).map { WallTime.ofMachine.nanoseconds - $0.changedAt > 200_000_000 } ?? false
        }
        // A process that another test has started may have the file open until it executes its program. Its end is an event.
        try await eventually("a file that is the same is not read") {
            let reads = bench.reads.value
            bench.passSlowChecks()
            return bench.reads.value == reads
        }
        let writer = open(other.file("same"), O_WRONLY | O_TRUNC | O_CLOEXEC)
        write(writer, "two", 3)
        close(writer)
        bench.passSlowChecks()
        try await bench.expect("two", of: path)
    }
    #endif

    @Test("events that the kernel drops lead to a read of all files")
    func overflow() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "one")
        let bench = try Bench([path])
        try await bench.expect("one", of: path)
        let eventsMax = try #require(
            ProcFile.read("/proc/sys/fs/inotify/max_queued_events").flatMap { text in
                Int(text.prefix { !$0.isWhitespace })
            })
        // The loop reads no event until the queue is full.
        let isFull = DispatchSemaphore(value: 0)
        bench.loop.post { isFull.wait() }
        let others = try ["a", "b"].map { open(try folder.write($0, ""), O_WRONLY | O_CLOEXEC) }
        // Two equal events in a row would be one.
        for number in 0...eventsMax { write(others[number % 2], "x", 1) }
        try Self.replace(path, by: "two")
        isFull.signal()
        for other in others { close(other) }
        try await bench.expect("two", of: path)
    }

    @Test("a file of a file system that reports no changes is read in intervals")
    func polledFileSystem() throws {
        let bench = try Bench()
        bench.watch("/proc/self/comm")
        try blockUntil("it is read") { !bench.words(of: "/proc/self/comm").isEmpty }
        #expect(bench.monitor.polledCount == 1)
    }

    @Test("many watches of one file share its reads, and all are told")
    func oneFileOfMany() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "one")
        let loop = try EventLoop(label: "test.changes")
        loop.start()
        defer { loop.stop() }
        let (reads, told) = (Tally(), Tally())
        let files = FileReader(noticing: FileChangeMonitor(on: loop)) { path, known in
            reads.add()
            return FileSnapshot.read(path, known: known)
        }
        let watches = (0..<1000).map { _ in FileWatch(path, by: files, on: loop) { _ in told.add() } }
        for watch in watches { watch.start() }
        defer { for watch in watches { watch.stop() } }
        try await eventually("all are told") { told.value == 1000 }
        let before = reads.value
        try Self.replace(path, by: "two")
        try await eventually("all are told again") { told.value == 2000 }
        #expect(reads.value - before < 500)
    }

    @Test("a probe finds no obstacle of a local file, and the file system of one that reports no changes")
    func probe() throws {
        let folder = try TemporaryFolder()
        symlink("/proc/self/comm", folder.file("link"))
        let obstacles = FileChangeProbe.obstacles(of: [folder.file("a/b"), folder.file("link")])
        #expect(obstacles == [folder.file("link"): .fileSystem(0x9fa0)])
    }
}
