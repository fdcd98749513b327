import Foundation
import TestSupport

/// Ten clients in a Python program, each of which makes one request in each round that the test asks for.
///
/// Every client keeps its state from round to round, such as its connection.
final class PythonClients: Sendable {
    private let process: ServerProcess
    private let rounds: FileHandle

    /// Starts the program, which waits for the first round.
    ///
    /// - Parameters:
    ///   - script: defines `ask(index)`, one request of the client `index` in 0 to 9, which returns the serial number of the certificate
    ///     that served it, or None. It throws if the request fails. It may use `folder`, the first argument.
    ///   - arguments: after `folder`.
    static func start(
        _ script: String, in folder: TemporaryFolder, _ arguments: [String]
    ) async throws -> PythonClients {
        let pipe = try Fifo(in: folder, named: "rounds")
        let process = try ServerProcess(PythonProcess.path, ["-c", script + loop, folder.path] + arguments)
        do {
            return PythonClients(process, try await pipe.opened())
        } catch {
            throw TestFailure("\(error); it said:\n\(process.log)")
        }
    }

    private init(_ process: ServerProcess, _ rounds: FileHandle) { (self.process, self.rounds) = (process, rounds) }

    private var roundCount: Int { process.output.split(separator: "\n").count { $0 == "round" } }

    /// One request of each client, all at the same time. Returns when all have ended.
    func round() async throws {
        let next = roundCount + 1
        do {
            try rounds.write(contentsOf: Data("\n".utf8))
        } catch {
            throw TestFailure("\(error); Python said:\n\(process.log)")
        }
        try await eventually("round \(next) has ended; it said:\n\(process.log)") {
            if let exit = process.exit { throw TestFailure("Python ended with \(exit):\n\(process.log)") }
            return roundCount == next
        }
    }

    /// Rounds, at least two, until `condition` is true after one. In each a quarter of a second of the clock passes.
    func rounds(
        until what: String, under clock: TestClock, _ condition: () async throws -> Bool
    ) async throws {
        try await round()
        try await eventually(what) {
            async let passed: Void = clock.pass(.milliseconds(250))
            try await round()
            try await passed
            return try await condition()
        }
    }

    /// Ends the program.
    ///
    /// - Returns: how many serial numbers the clients saw, and each failure with its number, as Python writes them: `2 {}`.
    func end() async throws -> String {
        try rounds.close()
        guard try await process.waitForExit() == .code(0) else { throw TestFailure("Python:\n\(process.log)") }
        return process.output.split(separator: "\n").last.map(String.init) ?? ""
    }

    private static let loop = """

        import collections, concurrent.futures
        failures, serials = collections.Counter(), set()
        def attempt(index):
            try: serials.add(ask(index))
            except Exception as error: failures[repr(error)] += 1
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            for _ in open(folder + "/rounds"):
                list(pool.map(attempt, range(10)))
                print("round", flush=True)
        print(len(serials - {None}), dict(failures))
        """
}
