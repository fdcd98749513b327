import Testing

@testable import Lanyard

@Suite struct FileChangeCheckTests {
    @Test(
        "the finding names the delay, the first file, how many others there are, and the reason",
        arguments: [
            (0, "changes of /a are seen within 20 s: why"),
            (1, "changes of /a and of 1 other file are seen within 20 s: why"),
            (9_999, "changes of /a and of 9999 other files are seen within 20 s: why"),
        ])
    func message(_ others: Int, _ expected: String) {
        #expect(FileChangeCheck.message(path: "/a", others: others, delay: .seconds(19.4), because: "why") == expected)
    }
}
