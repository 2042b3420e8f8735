"""What an instructor needs and the lessons already say: timetables, notes, wrong answers, tests."""
