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
        let reader = Task { try await offPool { ends.readToEnd() } }
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask { for number in 0..<5_000 { pipe.write(Self.line("\(thread) \(number)")) } }
            }
        }
        #expect(try await offPool { pipe.flush(within: .seconds(10)) })
        ends.closeWrite()
        let lines = try await reader.value.split(separator: "\n")
        #expect(lines.count == 20_000)
        #expect(pipe.droppedLines == 0)
        for thread in 0..<4 {
            let numbers = lines.filter { $0.hasPrefix("\"\(thread) ") }.map { Int($0.dropFirst(3).dropLast()) }
            #expect(numbers == Array(0..<5_000))
        }
        pipe.stop(within: .seconds(10))
    }

    @Test("a reader that stops reading blocks no writer: lines are dropped, counted, and told about when it goes on")
    func slowReader() async throws {
        let ends = Ends()
        let pipe = LogPipe(descriptor: ends.write, bytesMax: 64 << 10)
        pipe.start()
        let text = String(repeating: "x", count: 500)
        var slowest = Duration.zero
        for _ in 0..<2_000 {
            let start = Instant.now
            pipe.write(Self.line(text))
            slowest = max(slowest, Instant.now - start)
        }
        #expect(slowest < .milliseconds(500))
        let dropped = pipe.droppedLines
        #expect(dropped > 1_000)
        #expect(try await offPool { pipe.flush(within: .milliseconds(50)) } == false)
        let reader = Task { try await offPool { ends.readToEnd() } }
        #expect(try await offPool { pipe.flush(within: .seconds(10)) })
        pipe.stop(within: .seconds(10))
        ends.closeWrite()
        let lines = try await reader.value.split(separator: "\n").map(String.init)
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
        #expect(try await offPool { pipe.flush(within: .seconds(5)) })
        #expect(pipe.droppedLines == 11)
        pipe.stop(within: .seconds(10))
    }

    @Test("after the stop lines are written at once again")
    func stop() async throws {
        let ends = Ends()
        let pipe = LogPipe(descriptor: ends.write)
        pipe.start()
        pipe.write(Self.line("one"))
        try await offPool { pipe.stop(within: .seconds(10)) }
        pipe.write(Self.line("two"))
        #expect(ends.readAvailable() == "\"one\"\n\"two\"\n")
    }

    private static func line(_ text: String) -> JSONWriter {
        var line = JSONWriter()
        line.string(text)
        line.newline()
        return line
    }

    /// Both ends of a kernel pipe; closed when the test is over.
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
