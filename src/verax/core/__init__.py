"""What everything rests on: checks of arguments, arrays, keyed random numbers, blocks, files, hashes, text tables."""
