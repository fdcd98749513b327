// `lanyard-fuzz --head=NAME …` runs one fuzz head; all other arguments are libFuzzer's, which passes over those with two dashes.
FuzzDriver.run()
