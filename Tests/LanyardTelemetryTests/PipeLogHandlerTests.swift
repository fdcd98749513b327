import Glibc
import LanyardFoundations
import LanyardSettings
import LanyardTelemetry
import Logging
import TestSupport
import Testing

@Suite struct PipeLogHandlerTests {
    @Test("a line carries time, level, msg, event and flat metadata")
    func line() throws {
        let log = Log(.info)
        log.logger.info(
            "refresh failed",
            metadata: [
                "event": "session.refresh.failed", "user": "alice", "generation": .stringConvertible(7),
                "share": .stringConvertible(0.5), "final": .stringConvertible(true), "level": "mine",
                "tags": ["a", "b"],
            ])
        let line = try #require(log.lines.first)
        let json = try JSON(text: line)
        #expect(
            line.hasSuffix(
                #""level":"info","msg":"refresh failed","event":"session.refresh.failed","final":true,"generation":7,"#
                    + #""level_":"mine","share":0.5,"tags":["a","b"],"user":"alice"}"#))
        let time = try #require(json["time"].string)
        #expect(time.count == 24 && time.hasSuffix("Z"))
    }

    @Test("an error told in metadata keeps its name, and never stands twice")
    func error() throws {
        struct Broken: Error, CustomStringConvertible { let description = "broken" }
        let log = Log(.info)
        log.logger.warning("failed", metadata: ["error": "401 InvalidPassword"])
        #expect(try JSON(text: log.lines[0])["error"].string == "401 InvalidPassword")
        log.logger.warning("failed", error: Broken(), metadata: ["error": "told"])
        #expect(log.lines[1].hasSuffix(#""error":"broken","error_":"told"}"#))
    }

    @Test("no message breaks its line, and every value is bounded")
    func hostile() throws {
        let log = Log(.info)
        let long = String(repeating: "\u{1b}", count: 100_000)
        log.logger.error(
            "two\nlines", metadata: ["a": .string(long), "b": .array(Array(repeating: .string(long), count: 100))])
        #expect(log.lines.count == 1)
        #expect(log.lines[0].utf8.count < 3 * PipeLogHandler.lineBytesMax)
        #expect(try JSON(text: log.lines[0])["msg"].string == "two\nlines")
    }

    @Test("a line of text: values are quoted where a reader could take them apart, and never break the line")
    func text() throws {
        let log = Log(.info, .text)
        log.logger.warning(
            "refresh \u{1b}[31mfailed\n",
            metadata: [
                "event": "session.refresh.failed", "user": "alice", "generation": .stringConvertible(7), "empty": "",
                "cause": "no \"route\" a=b", "wide": "ü", "tags": ["a", "b"],
            ])
        log.logger.error("long", metadata: ["a": .string(String(repeating: "\u{7f}", count: 100_000))])
        let line = try #require(log.lines.first)
        #expect(line.prefix(24).wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil)
        #expect(
            line.dropFirst(24)
                == #" warning refresh \u001b[31mfailed\n event=session.refresh.failed cause="no \"route\" a=b" empty="" "#
                + #"generation=7 tags="[\"a\", \"b\"]" user=alice wide="ü""#, "\(line)")
        #expect(log.lines.count == 2 && log.lines[1].utf8.count < 3 * PipeLogHandler.lineBytesMax)
    }

    @Test("a secret in the metadata is not written")
    func secret() {
        let log = Log(.info)
        let secret = "hunter2".utf8.withContiguousStorageIfAvailable { Secret(copying: UnsafeRawBufferPointer($0)) }!
        log.logger.info("got \(secret)", metadata: ["token": .stringConvertible(secret)])
        #expect(log.lines[0].contains("<secret>"))
        #expect(!log.lines[0].contains("hunter2"))
    }

    @Test("toggling turns debug lines on for every logger, and off again")
    func toggle() {
        let log = Log(.warning)
        let other = log.logger
        other.debug("no")
        other.info("no")
        log.verbosity.toggleDebug()
        other.debug("yes")
        log.verbosity.toggleDebug()
        other.debug("no")
        other.warning("yes")
        #expect(log.lines.count == 2)
    }

    @Test("toggling a program that already writes debug lines changes nothing")
    func toggleDebug() {
        let verbosity = LogVerbosity(.debug)
        #expect(verbosity.toggleDebug() == .debug)
        #expect(verbosity.toggleDebug() == .debug)
        let trace = LogVerbosity(.trace)
        #expect(trace.toggleDebug() == .trace)
    }

    /// A logger that writes into a temporary file.
    private final class Log {
        let verbosity: LogVerbosity
        let logger: Logger
        private let file = tmpfile()!

        init(_ level: LogSettings.Level, _ format: LogSettings.Format = .json) {
            let verbosity = LogVerbosity(level)
            let pipe = LogPipe(descriptor: fileno(file), format: format)
            self.verbosity = verbosity
            logger = Logger(label: "test") { _ in PipeLogHandler(pipe: pipe, verbosity: verbosity) }
        }

        var lines: [String] {
            var bytes = [UInt8](repeating: 0, count: 1 << 20)
            let count = pread(fileno(file), &bytes, bytes.count, 0)
            return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self).split(separator: "\n").map(String.init)
        }

        deinit { fclose(file) }
    }
}
