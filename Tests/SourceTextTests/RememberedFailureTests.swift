import TestSupport
import Testing

/// A call that can fail for a moment, for want of memory, of descriptors or of a file, is made again by the next use.
@Suite struct RememberedFailureTests {
    /// Values that are made once and that a failure would leave unusable until the program's end.
    private static func remembered(in text: String) -> [Int] {
        SourceFiles.codeLines(of: text).compactMap { number, line in
            let line = String(line)
            if SourceFiles.holds(line, "pthread_once") { return number }
            let isMadeByC = ["= lanyard_", "= curl_", "= dlopen", "= SSL_", "= BIO_", "= pthread_", "= EVP_"].contains {
                line.contains($0)
            }
            return line.contains("static let ") && isMadeByC ? number : nil
        }
    }

    @Test("no source keeps the failure of a call that was made once")
    func none() throws {
        for (path, text) in try SourceFiles.texts(below: "Sources", [".swift", ".c", ".h"]) {
            #expect(Self.remembered(in: text) == [], "\(path): a failure is remembered")
        }
    }

    @Test("a planted one is found")
    func planted() {
        #expect(Self.remembered(in: "    private static let initialised = lanyard_curl_global_init()") == [1])
        #expect(Self.remembered(in: "    pthread_once(&once, load);") == [1])
        #expect(Self.remembered(in: "    static let limit = 3") == [])
    }
}
