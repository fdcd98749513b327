import Foundation
import Glibc
import LanyardFoundations
import LanyardTelemetry
import TestSupport
import Testing

@Suite struct LogPipeTests {
    @Test("before the start a line is written at once")
    func direct() {
        let ends = Ends()
        let pipe = LogPipe(descriptor: ends.write)
        pipe.write(Self.line("one"))
        #expect(ends.readAvailable() == "\"one\"\n")
    }

    @Test("lines of many threads arrive whole, none lost, each thread's in order")
    func many() async throws {
        let ends = Ends()
        let pipe = LogPipe(descriptor: ends.write)
        pipe.start()
        let reader = Task { ends.readToEnd() }
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask { for number in 0..<5_000 { pipe.write(Self.line("\(thread) \(number)")) } }
            }
        }
        #expect(pipe.flush())
        ends.closeWrite()
        let lines = await reader.value.split(separator: "\n")
        #expect(lines.count == 20_000)
        #expect(pipe.droppedLines == 0)
        for thread in 0..<4 {
            let numbers = lines.filter { $0.hasPrefix("\"\(thread) ") }.map { Int($0.dropFirst(3).dropLast()) }
            #expect(numbers == Array(0..<5_000))
        }
        pipe.stop()
    }

    @Test("lines of rings arrive whole and in the order of each ring, beside the others, and wake the thread each time")
    func rings() async throws {
        let ends = Ends()
        let pipe = LogPipe(descriptor: ends.write)
        let rings = (0..<3).map { _ in pipe.makeRing() }
        pipe.start()
        let reader = Task { ends.readToEnd() }
        await withTaskGroup(of: Void.self) { group in
            for (number, ring) in rings.enumerated() {
                group.addTask {
                    for count in 0..<2_000 {
                        let padding = String(repeating: "x", count: count % 301)
                        Self.line("\(number) \(count) \(padding)").bytes.withUnsafeBytes { ring.append($0) }
                        // The thread has nothing to do after some lines, and falls asleep.
                        if count % 500 == 499 { _ = pipe.flush() }
                    }
                }
            }
            group.addTask { for count in 0..<2_000 { pipe.write(Self.line("3 \(count) ")) } }
        }
        #expect(pipe.flush())
        pipe.stop()
        ends.closeWrite()
        let lines = await reader.value.split(separator: "\n")
        let dropped = pipe.droppedLines
        #expect(lines.count { !$0.contains("log.dropped") } == 8_000 - dropped)
        for number in 0..<4 {
            let counts = lines.filter { $0.hasPrefix("\"\(number) ") }.compactMap {
                Int($0.dropFirst(3).prefix { $0.isNumber })
            }
            #expect(counts == counts.sorted() && Set(counts).count == counts.count)
            if dropped == 0 { #expect(counts == Array(0..<2_000)) }
        }
    }

    @Test("a ring whose reader stands still drops lines and counts them; what it took arrives, around its end, too")
    func fullRing() async throws {
        let ends = Ends()
        let pipe = LogPipe(descriptor: ends.write)
        let ring = pipe.makeRing()
        let text = String(repeating: "y", count: 997)
        for _ in 0..<600 { Self.line(text).bytes.withUnsafeBytes { ring.append($0) } }
        let first = ring.droppedLines
        #expect(first == 600 - LineRing.bytesMax / 1_000)
        let reader = Task { ends.readToEnd() }
        pipe.start()
        #expect(pipe.flush())
        for _ in 0..<200 { Self.line(text).bytes.withUnsafeBytes { ring.append($0) } }
        #expect(pipe.flush())
        pipe.stop()
        ends.closeWrite()
        let lines = await reader.value.split(separator: "\n")
        #expect(lines.count { $0.contains(text) } == 800 - ring.droppedLines && ring.droppedLines == first)
        let told = try lines.filter { $0.contains("log.dropped") }.map { try JSON(text: String($0))["lines"].int ?? 0 }
        #expect(told.reduce(0, +) == first)
    }

    @Test("a reader that stops reading blocks no writer: lines are dropped, counted, and told about when it continues")
    func slowReader() async throws {
        let ends = Ends()
        let pipe = LogPipe(descriptor: ends.write, bytesMax: 64 << 10)
        pipe.start()
        let text = String(repeating: "x", count: 500)
        // Nothing reads until they are written: a writer that was blocked would never end.
        for _ in 0..<2_000 { pipe.write(Self.line(text)) }
        let dropped = pipe.droppedLines
        #expect(dropped > 1_000)
        #expect(pipe.flush(within: .milliseconds(50)) == false)
        let reader = Task { ends.readToEnd() }
        #expect(pipe.flush())
        pipe.stop()
        ends.closeWrite()
        let lines = await reader.value.split(separator: "\n").map(String.init)
        let told = try lines.filter { $0.contains("log.dropped") }.map { try JSON(text: $0)["lines"].int ?? 0 }
        #expect(told.reduce(0, +) == dropped)
        #expect(lines.count { $0.contains(text) } == 2_000 - dropped)
    }

    @Test("a reader that has gone ends nothing: lines are dropped and counted")
    func goneReader() async throws {
        signal(SIGPIPE, SIG_IGN)
        let ends = Ends()
        let pipe = LogPipe(descriptor: ends.write)
        ends.closeRead()
        pipe.write(Self.line("direct"))
        #expect(pipe.droppedLines == 1)
        pipe.start()
        for _ in 0..<10 { pipe.write(Self.line("lost")) }
        #expect(pipe.flush())
        #expect(pipe.droppedLines == 11)
        pipe.stop()
    }

    @Test("after a line that was cut the next one begins on a line of its own, and no byte is written twice")
    func cutLine() async throws {
        signal(SIGPIPE, SIG_IGN)
        let (narrow, next) = (Ends(), Ends())
        // A page of the pipe: the rest of the line waits for a reader, who leaves.
        let page = CInt(4_096)
        // F_SETPIPE_SZ, which the Glibc module hides.
        try #require(fcntl(narrow.write, 1031, page) == page)
        let pipe = LogPipe(descriptor: narrow.write)
        pipe.start()
        pipe.write(Self.line(String(repeating: "s", count: 6_000)))
        try await eventually("the pipe is full") {
            var count: CInt = 0
            return ioctl(narrow.read, UInt(FIONREAD), &count) == 0 && count == page
        }
        narrow.closeRead()
        #expect(pipe.flush())
        #expect(pipe.droppedLines == 1)
        // The same descriptor can be written again, as on a disk with room.
        try #require(dup2(next.write, narrow.write) == narrow.write)
        pipe.write(Self.line("two"))
        #expect(pipe.flush())
        pipe.write(Self.line("three"))
        #expect(pipe.flush())
        pipe.stop()
        let lines = next.readAvailable().split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.first == "" && lines.last == "")
        #expect(lines.dropFirst().dropLast().filter { !$0.contains("log.dropped") } == ["\"two\"", "\"three\""])
    }

    @Test(
        "a file that an earlier process has left inside a line gets a newline first",
        arguments: [("", ""), ("whole\n", "whole\n"), ("cut", "cut\n")])
    func leftByAnother(_ before: String, _ after: String) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("log", before)
        for (mode, seeks) in [(O_APPEND, false), (0, true)] {
            try Data(before.utf8).write(to: URL(fileURLWithPath: path))
            let file = open(path, O_WRONLY | CInt(mode) | O_CLOEXEC)
            defer { close(file) }
            if seeks { lseek(file, 0, SEEK_END) }
            LogPipe(descriptor: file).write(Self.line("one"))
            #expect(try String(contentsOfFile: path, encoding: .utf8) == after + "\"one\"\n")
        }
    }

    @Test("after the stop lines are written at once again")
    func stop() async throws {
        let ends = Ends()
        let pipe = LogPipe(descriptor: ends.write)
        pipe.start()
        pipe.write(Self.line("one"))
        pipe.stop()
        pipe.write(Self.line("two"))
        #expect(ends.readAvailable() == "\"one\"\n\"two\"\n")
    }

    private static func line(_ text: String) -> JSONWriter {
        var line = JSONWriter()
        line.string(text)
        line.newline()
        return line
    }

    /// Both ends of a kernel pipe; closed when the test has ended.
    private final class Ends: @unchecked Sendable {
        private(set) var read: CInt
        private(set) var write: CInt

        init() {
            var ends: [CInt] = [-1, -1]
            pipe(&ends)
            read = ends[0]
            write = ends[1]
        }

        deinit {
            closeRead()
            closeWrite()
        }

        func closeRead() {
            if read >= 0 { close(read) }
            read = -1
        }

        func closeWrite() {
            if write >= 0 { close(write) }
            write = -1
        }

        func readAvailable() -> String {
            var bytes = [UInt8](repeating: 0, count: 65_536)
            let count = Glibc.read(read, &bytes, bytes.count)
            return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
        }

        func readToEnd() -> String {
            var all: [UInt8] = []
            var bytes = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = Glibc.read(read, &bytes, bytes.count)
                guard count > 0 else { return String(decoding: all, as: UTF8.self) }
                all += bytes.prefix(count)
            }
        }
    }
}

extension LogPipe {
    /// For a test: the product's own limits are far beyond what a test lasts.
    fileprivate func flush() -> Bool { flush(within: .seconds(3600)) }
    fileprivate func stop() { stop(within: .seconds(3600)) }
}
